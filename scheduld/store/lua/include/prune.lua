-- Removes ended tasks that are older than the retention or beyond its count. Answers how many.
local function prune(index, keep_count, keep_age, limit)
  local spare = math.min(redis.call('ZCARD', index) - keep_count, limit)
  local ids
  if spare > 0 then
    ids = redis.call('ZRANGE', index, 0, spare - 1)
  else
    ids = redis.call('ZRANGEBYSCORE', index, '-inf', int(now - keep_age), 'LIMIT', 0, limit)
  end
  if #ids == 0 then
    return 0
  end
  redis.call('ZREM', index, unpack(ids))
  -- A plain ZADD may have given the id a new life: then the hash is that life's.
  local scheduled = redis.call('ZMSCORE', due, unpack(ids))
  local running = redis.call('ZMSCORE', leased, unpack(ids))
  local ended = redis.call('ZMSCORE', index == done and dead or done, unpack(ids))
  local hashes = {}
  for position, id in ipairs(ids) do
    if not (scheduled[position] or running[position] or ended[position]) then
      hashes[#hashes + 1] = prefix .. id
    end
  end
  if #hashes > 0 then
    redis.call('UNLINK', unpack(hashes))
  end
  return #ids
end
