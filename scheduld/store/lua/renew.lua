#!lua flags=allow-oom
-- Pushes lease ends out, and tells which runs should stop.
--
-- KEYS[1..6], ARGV[1..6]: see include/type.lua
-- KEYS[7..] tasks  hashes of the tasks
-- ARGV[7] lease  ms from now to the new end
-- ARGV[8] count  how many pairs follow: id, fence
--
-- Returns {0, now µs, codes}: 1 renewed, 2 renewed and asked to stop (cancelled),
--                             3 lost, but its verdict would still count, 4 lost for good
--         {-1, now µs} too late
--
-- @include type
local lease, count = tonumber(ARGV[7]), tonumber(ARGV[8])

local codes = {}
for index = 1, count do
  local id, fence = ARGV[7 + index * 2], ARGV[8 + index * 2]
  local task = redis.pcall('HMGET', KEYS[6 + index], 'fence', 'cancel', 'settled', 'outcome')
  if task.err or task[1] ~= fence or task[3] == fence or task[4] then
    codes[index] = 4
  elseif redis.call('ZSCORE', leased, id) then
    redis.call('ZADD', leased, int(now + lease), id)
    codes[index] = task[2] and 2 or 1
  else
    codes[index] = redis.call('ZSCORE', due, id) and 3 or 4
  end
end
return {0, now_us, codes}
