-- What stands in due and cannot run: it waits, or is dead with a reason.
local seconds_from, seconds_to = 1e9, 1e11
local last_ms = 253402300799999
local hash_wait = 2000

-- An id that runs already is not run beside itself: its payload and time wait for the end.
local function wait_for_end(id, score)
  local key = prefix .. id
  redis.call('ZREM', due, id)
  drop_successor(id)
  redis.call('HSET', key, 'next', int(math.max(score, 0)), 'next_payload',
    redis.call('HGET', key, 'payload') or '{}')
  note('replaced', id)
end

local function look(id)
  return redis.pcall('HMGET', prefix .. id, 'payload', 'failed', 'releases', 'interruptions',
    'outcome', 'due', 'seen', 'started', 'moved', 'key', 'expires', 'priority', 'every', 'series',
    'schedule', 'over')
end

-- What a plain ZADD can put into due and cannot run now. Answers whether the id was dealt with.
local function refuse(id, score, task, is_held)
  local key = prefix .. id
  if task.err then
    bury(id, '', 'wrong_type: the key of the task does not hold a hash')
    return true
  end
  if is_held then
    wait_for_end(id, score)
    return true
  end
  if score > last_ms then
    bury(id, '{"kind":"due","message":"the due time is beyond the year 9999"}',
      'due: beyond the year 9999')
    return true
  end
  if score >= seconds_from and score < seconds_to then
    bury(id, '{"kind":"due","message":"the due time looks like seconds, not milliseconds"}',
      'due: looks like seconds')
    return true
  end
  if (number(task[11]) or last_ms) < math.max(score, now) then
    expire(id)
    return true
  end
  if task[1] or redis.call('HLEN', key) > (task[7] and 2 or 0) then
    return false
  end
  local since = number(task[7]) or now
  if now - since >= hash_wait then
    redis.call('HDEL', key, 'seen', 'due')
    bury(id, '{"kind":"no_hash","message":"the id was scheduled without a hash"}',
      'no_hash: scheduled without a hash')
  else
    redis.call('HSET', key, 'seen', since, 'due', task[6] or int(score > 0 and score or now))
    redis.call('ZADD', due, int(now + 200), id)
  end
  return true
end
