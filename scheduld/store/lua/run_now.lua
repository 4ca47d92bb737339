#!lua flags=allow-oom
-- Makes a task that waits due now: for its time, a retry or the end of a snooze. Counters stay.
--
-- KEYS[1..6], ARGV[1..6]: see include/type.lua
-- KEYS[7] task  hash of the task
-- ARGV[7] id    id of the task
--
-- Returns {0, now µs, code, state}: 1 due now, 3 refused by the state
--         {-1, now µs} too late
--
-- @include type guard events live load pack ends state anew back ready
local task, id = KEYS[7], ARGV[7]

local state = state_of(id)
local code = 3
if state == 'scheduled' or state == 'early' then
  make_ready(id, state)
  local at = tonumber(redis.call('ZSCORE', due, id))
  local from = origin(at, redis.pcall('HGET', task, 'moved'))
  if at <= now then
    -- Due already: it keeps its place in the line.
    lower(at)
  elseif from <= now then
    -- Due already, but behind others for its priority or its key.
    move_due(id, from, now)
    lower(now)
  else
    -- The nominal due stays. (A hash that a plain add has yet to write is not begun here.)
    if number(at) and redis.call('EXISTS', task) == 1 then
      redis.call('HSETNX', task, 'due', int(at))
    end
    set_due(id, now)
  end
  note('run_now', id)
  code = 1
end
write_events()
return {0, now_us, code, state}
