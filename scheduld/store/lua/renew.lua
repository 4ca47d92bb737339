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
-- @include type guard
local lease, count = tonumber(ARGV[7]), tonumber(ARGV[8])

local codes, ids, ends, until_ms = {}, {}, {}, int(now + lease)
for index = 1, count do
  ids[index] = ARGV[7 + index * 2]
end
local held, waiting, finished = scores_of(leased, ids), scores_of(due, ids), scores_of(done, ids)
for index, id in ipairs(ids) do
  local fence = ARGV[8 + index * 2]
  local task = redis.pcall('HMGET', KEYS[6 + index], 'fence', 'cancel', 'settled', 'outcome')
  if task.err or task[1] ~= fence or task[3] == fence or task[4] then
    codes[index] = 4
  elseif held[index] then
    ends[#ends + 1] = until_ms
    ends[#ends + 1] = id
    codes[index] = task[2] and 2 or 1
  else
    -- One that is done and in due too was added again by a plain ZADD.
    codes[index] = waiting[index] and not finished[index] and 3 or 4
  end
end
if #ends > 0 then
  redis.call('ZADD', leased, unpack(ends))
end
return {0, now_us, codes}
