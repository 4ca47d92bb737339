#!lua flags=allow-oom
-- Notes why a schedule cannot be fired; the next definition of it takes the note away.
--
-- KEYS[1..6], ARGV[1..6]: see include/type.lua
-- KEYS[7] cron    hash of the schedule
-- ARGV[7] name    name of the schedule
-- ARGV[8] digest  digest of the definition that it is about
-- ARGV[9] why     why, in one line
--
-- Returns {0, now µs, code}: 1 noted, 2 it has another definition, 15 gone, 17 broken key
--         {-1, now µs} too late
--
-- @include type guard events live changed
local cron, name, digest, why = KEYS[7], ARGV[7], ARGV[8], ARGV[9]

local known = schedule(name, cron).read()
local code = absence(known) or known.digest ~= digest and 2 or 1
if code == 1 then
  redis.call('HSET', cron, 'parked', why)
end
return {0, now_us, code}
