#!lua flags=allow-oom
-- Stops the ticks of a schedule, until it is resumed; its tasks go on.
--
-- KEYS[1..6], ARGV[1..6]: see include/type.lua
-- KEYS[7] cron    hash of the schedule
-- ARGV[7] name    name of the schedule
-- ARGV[8] reason  why, in one line
-- ARGV[9] who     who says so
--
-- Returns {0, now µs, code, since}: 1 paused, since that ms (an earlier pause goes on), 15 gone,
--         17 broken key, 18 moved
--         {-1, now µs} too late
--
-- @include type guard events live changed
local cron, name, reason, who = KEYS[7], ARGV[7], ARGV[8], ARGV[9]

local known = schedule(name, cron).read()
local code, since = closed(known) or 1, now
if code == 1 then
  since = number(known.paused) or now
  redis.call('HSET', cron, 'paused', int(since), 'pause_reason', reason, 'pause_who', who)
  tell_change(name)
end
return {0, now_us, code, int(since)}
