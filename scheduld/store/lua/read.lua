#!lua flags=no-writes
-- Reads tasks as they are at one instant.
--
-- KEYS[1..6], ARGV[1..6]: see include/type.lua
-- KEYS[7..] tasks  hashes of the tasks
-- ARGV[7] count  how many ids follow
--
-- Returns {0, now µs, rows}, a row an id:
--         {due, lease end, finished, died (ms or ''), hash as a flat list, type of the key}
--         {-1, now µs} too late
--
-- @include type guard
local count = tonumber(ARGV[7])

local rows = {}
for index = 1, count do
  local id = ARGV[7 + index]
  local key = KEYS[6 + index]
  local kind = redis.call('TYPE', key).ok
  rows[index] = {
    redis.call('ZSCORE', due, id) or '',
    redis.call('ZSCORE', leased, id) or '',
    redis.call('ZSCORE', done, id) or '',
    redis.call('ZSCORE', dead, id) or '',
    kind == 'hash' and redis.call('HGETALL', key) or {},
    kind,
  }
end
return {0, now_us, rows}
