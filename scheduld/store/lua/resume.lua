#!lua flags=allow-oom
-- Lets a paused type be claimed again.
--
-- KEYS[1..6], ARGV[1..6]: see include/type.lua
--
-- Returns {0, now µs, was_paused}: 1 or 0
--         {-1, now µs} too late
--
-- @include type guard events
local was_paused = redis.call('HDEL', meta, 'paused')
redis.call('HDEL', meta, 'pause_reason', 'pause_who')
if was_paused == 1 then
  note('resumed', '')
  hidden = redis.call('HEXISTS', meta, 'weighs') == 1
  local first = redis.call('ZRANGE', due, '0', '0', 'WITHSCORES')[2]
  if first then
    lower(tonumber(first))
  end
end
write_events()
return {0, now_us, was_paused}
