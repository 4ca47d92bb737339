-- Ends the runs of the last batch and claims the next one.
-- KEYS[1] due zset, KEYS[2] leased zset, KEYS[3] prefix of hashes
-- ARGV[1] most to claim, ARGV[2] ms ahead that count as due, ARGV[3] lease ms, ARGV[4..] ids that ended
-- Returns {now ms, next due ms or '', id, due ms, payload, ...}
if #ARGV > 3 then
  local ended, hashes = {}, {}
  for index = 4, #ARGV do
    ended[#ended + 1] = ARGV[index]
    hashes[#hashes + 1] = KEYS[3] .. ARGV[index]
  end
  redis.call('ZREM', KEYS[2], unpack(ended))
  redis.call('DEL', unpack(hashes))
end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + tonumber(time[2]) / 1000
local answer, ids, leases = {string.format('%.3f', now), ''}, {}, {}
local lease_end = string.format('%d', now + tonumber(ARGV[3]))
local found = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%d', now + tonumber(ARGV[2])),
  'WITHSCORES', 'LIMIT', 0, ARGV[1])
for index = 1, #found, 2 do
  local id = found[index]
  answer[#answer + 1] = id
  answer[#answer + 1] = found[index + 1]
  answer[#answer + 1] = redis.call('HGET', KEYS[3] .. id, 'payload')
  ids[#ids + 1] = id
  leases[#leases + 1] = lease_end
  leases[#leases + 1] = id
end
if #ids > 0 then
  -- What was found is what comes first: cheaper than by name.
  redis.call('ZREMRANGEBYRANK', KEYS[1], 0, #ids - 1)
  redis.call('ZADD', KEYS[2], unpack(leases))
else
  answer[2] = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2] or ''
end
return answer
