#!lua flags=no-writes
-- Reads schedules as they are at one instant.
--
-- KEYS[1..6], ARGV[1..6]: see include/type.lua
-- KEYS[7..] crons  hashes of the schedules
-- ARGV[7] count  how many names follow
--
-- Returns {0, now µs, rows}, a row a name {hash as a flat list, unfinished tasks, type of the key}
--         {-1, now µs} too late
--
-- @include type guard
local count = tonumber(ARGV[7])

local rows = {}
for index = 1, count do
  local key, live = KEYS[6 + index], string.sub(prefix, 1, -6) .. 'live:' .. ARGV[7 + index]
  local flat, kind = redis.pcall('HGETALL', key), 'hash'
  if flat.err or #flat == 0 then
    flat, kind = {}, redis.call('TYPE', key).ok
  end
  local unfinished = redis.pcall('ZCOUNT', live, '0', '+inf')
  rows[index] = {flat, type(unfinished) == 'number' and unfinished or 0, kind}
end
return {0, now_us, rows}
