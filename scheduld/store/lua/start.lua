#!lua flags=allow-oom
-- Confirms tasks that were claimed early, just before they start.
--
-- KEYS[1..6], ARGV[1..6]: see include/type.lua
-- KEYS[7..] tasks  hashes of the tasks
-- ARGV[7] lead   ms that a start may be ahead of its due
-- ARGV[8] count  how many pairs follow: id, fence
--
-- Returns {0, now µs, codes}: 1 start it, 2 taken back (cancelled, edited, lost), 3 given back:
--                             by the server's clock it is not due yet, or the type is paused
--         {-1, now µs} too late
--
-- @include type guard events live load pack ends back
local lead, count = tonumber(ARGV[7]), tonumber(ARGV[8])

local codes, ids = {}, {}
for index = 1, count do
  ids[index] = ARGV[7 + index * 2]
end
local held, is_paused = scores_of(leased, ids), redis.call('HGET', meta, 'paused')
for index, id in ipairs(ids) do
  local fence = ARGV[8 + index * 2]
  local key = KEYS[6 + index]
  local task = redis.pcall('HMGET', key, 'fence', 'early', 'expires')
  if task.err or task[1] ~= fence or not held[index] then
    codes[index] = 2
  elseif not task[2] then
    -- Repeated: the answer of the first call was lost.
    codes[index] = 1
  elseif is_paused or (number(task[2]) or now) > now + lead then
    take_back(id)
    codes[index] = 3
  elseif (number(task[3]) or now) < now then
    expire(id)
    codes[index] = 2
  else
    redis.call('HDEL', key, 'early')
    redis.call('HSET', key, 'started', task[2])
    codes[index] = 1
  end
end
write_events()
return {0, now_us, codes}
