-- A plain HSET and ZADD gave an ended id a new life: the hash is that life's, from now on
-- without anything of the old one. Only the index told them apart.
local function begin_anew(id)
  local key = prefix .. id
  local task = redis.pcall('HMGET', key, 'payload', 'seen')
  -- seen without payload: a claim waits for the hash that may follow its ZADD.
  if not task.err and (task[1] or not task[2]) and redis.call('DEL', key) == 1 then
    redis.call('HSET', key, 'payload', task[1] or '{}')
  end
end

-- Removes ended tasks that are older than the retention or beyond its count. Answers how many.
local function prune(index, keep_count, keep_age, limit)
  local count = redis.call('ZCARD', index)
  if count == 0 then
    return 0
  end
  local spare, ids = math.min(count - keep_count, limit), nil
  if spare > 0 then
    ids = redis.call('ZRANGE', index, '0', spare - 1)
  else
    ids = redis.call('ZRANGEBYSCORE', index, '-inf', int(now - keep_age), 'LIMIT', '0', limit)
  end
  if #ids == 0 then
    return 0
  end
  redis.call('ZREMRANGEBYRANK', index, '0', #ids - 1)
  local scheduled = redis.call('ZMSCORE', due, unpack(ids))
  local running = redis.call('ZMSCORE', leased, unpack(ids))
  local ended = scores_of(index == done and dead or done, ids)
  local hashes = {}
  for position, id in ipairs(ids) do
    if scheduled[position] and not (running[position] or ended[position]) then
      begin_anew(id)
    elseif not (scheduled[position] or running[position] or ended[position]) then
      hashes[#hashes + 1] = prefix .. id
    end
  end
  if #hashes > 0 then
    redis.call('UNLINK', unpack(hashes))
  end
  return #ids
end
