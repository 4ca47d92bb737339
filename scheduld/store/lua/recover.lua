#!lua flags=allow-oom
-- Gives back expired leases, a bounded number a call.
--
-- KEYS[1..6], ARGV[1..6]: see include/type.lua
-- ARGV[7]  lease              ms of a lease
-- ARGV[8]  bound              leases that ended up to this ms are given back
-- ARGV[9]  max_interruptions  lost runs before a task is dead
-- ARGV[10] limit              most tasks to look at
--
-- Returns {0, now µs, given back}
--         {-1, now µs} too late
--
-- @include type guard events live load pack ends period recover
local lease, bound, max_interruptions, limit = ARGV[7], ARGV[8], ARGV[9], ARGV[10]

local longest = redis.call('HGET', meta, 'lease')
local count = recover(tonumber(bound), tonumber(lease), longest, tonumber(max_interruptions), limit)
write_events()
return {0, now_us, count}
