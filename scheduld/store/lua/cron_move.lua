#!lua flags=allow-oom
-- Marks a schedule as moved to another type: none of its ticks is fired here any more.
--
-- KEYS[1..6], ARGV[1..6]: see include/type.lua
-- KEYS[7] cron  hash of the schedule
-- ARGV[7] name  name of the schedule
-- ARGV[8] to    the type it moves to
--
-- Returns {0, now µs, code}: 1 marked, 15 gone, 17 broken key
--         {-1, now µs} too late
--
-- @include type guard events live changed
local cron, name, to = KEYS[7], ARGV[7], ARGV[8]

local code = absence(schedule(name, cron).read()) or 1
if code == 1 then
  redis.call('HSET', cron, 'moved', to)
  tell_change(name)
end
return {0, now_us, code}
