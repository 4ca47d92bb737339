#!lua flags=allow-oom
-- Removes a schedule; its waiting tasks are cancelled, a bounded number a call.
--
-- KEYS[1..6], ARGV[1..6]: see include/type.lua
-- KEYS[7] cron    hash of the schedule
-- ARGV[7] name    name of the schedule
-- ARGV[8] reason  why, in one line, for the history
-- ARGV[9] start   '' or: go on with the tasks of a removed one from this place on
--
-- Returns {0, now µs, code, cancelled, next}: 1 removed (now or before), 15 there was none; how
--         many tasks were cancelled; where to go on, or ''
--         {-1, now µs} too late
--
-- @include type guard events live load pack ends state anew back ready stop uncron changed
local cron, name, reason, start = KEYS[7], ARGV[7], ARGV[8], ARGV[9]

local code, cancelled, next_start = 1, 0, ''
if start ~= '' then
  -- One that was defined again meanwhile keeps its tasks.
  if redis.call('EXISTS', cron) == 0 then
    cancelled, next_start = remove_tasks(name, tonumber(start))
  end
else
  local known = schedule(name, cron).read()
  code = known == nil and redis.call('EXISTS', cron) == 0 and 15 or 1
  cancelled, next_start = remove(name, known, reason)
end
write_events()
tell_change(name)
return {0, now_us, code, cancelled, next_start}
