#!lua flags=allow-oom
-- Stops the claims of a type, until it is resumed; what runs goes on.
--
-- KEYS[1..6], ARGV[1..6]: see include/type.lua
-- ARGV[7] reason  why, in one line
-- ARGV[8] who     who says so
--
-- Returns {0, now µs, since}: ms since when the type is paused; an earlier pause goes on
--         {-1, now µs} too late
--
-- @include type guard events
local reason, who = ARGV[7], ARGV[8]

local since = number(redis.call('HGET', meta, 'paused')) or now
redis.call('HSET', meta, 'paused', int(since), 'pause_reason', reason, 'pause_who', who)
note('paused', '', reason ~= '' and reason or nil)
write_events()
return {0, now_us, int(since)}
