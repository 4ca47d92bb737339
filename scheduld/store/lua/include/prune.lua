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
  drop(index, ids)
  return #ids
end
