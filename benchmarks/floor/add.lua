-- Adds tasks: hash and index together.
-- KEYS[1] due zset, KEYS[2] prefix of hashes, ARGV: id, due ms, payload of each
local places = {}
for index = 1, #ARGV, 3 do
  redis.call('HSET', KEYS[2] .. ARGV[index], 'payload', ARGV[index + 2])
  places[#places + 1] = ARGV[index + 1]
  places[#places + 1] = ARGV[index]
end
redis.call('ZADD', KEYS[1], unpack(places))
return 1
