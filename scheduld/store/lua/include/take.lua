-- Moves due tasks to leased, oldest first. Answers one row per task:
-- {id, payload, nominal due, start ms, early, failed, releases, interruptions}
local seconds_from, seconds_to = 1e9, 1e11
local last_ms = 253402300799999
local max_bytes = 4 * 1024 * 1024
local hash_wait = 2000

-- An id that runs already is not run beside itself: its payload and time wait for the end.
local function wait_for_end(id, score)
  local key = prefix .. id
  redis.call('ZREM', due, id)
  redis.call('HSET', key, 'next', int(math.max(score, 0)), 'next_payload',
    redis.call('HGET', key, 'payload') or '{}')
  redis.call('HDEL', key, 'next_token')
  note('replaced', id)
end

-- What a plain ZADD can put into due and cannot run now. Answers whether the id was dealt with.
local function refuse(id, score, task)
  local key = prefix .. id
  if task.err then
    bury(id, '', 'wrong_type: the key of the task does not hold a hash')
    return true
  end
  if redis.call('ZSCORE', leased, id) then
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

local function take_one(id, score, task, fence, lead)
  local key = prefix .. id
  if task[5] then
    -- A plain HSET and ZADD of an ended id: a new life with counters at zero.
    redis.call('DEL', key)
    task = {task[1]}
    redis.call('HSET', key, 'payload', task[1] or '{}')
  end
  local at = math.ceil(score)
  local nominal = int(number(task[6]) or (at > 0 and at or now))
  local early = at > now + lead
  redis.call('HSET', key, 'fence', fence, 'owner', node, 'due', nominal)
  if task[7] or task[8] then
    redis.call('HDEL', key, 'seen', 'started')
  end
  if early then
    redis.call('HSET', key, 'early', int(at))
  elseif at > now then
    redis.call('HSET', key, 'started', int(at))
  end
  return {id, task[1] or false, nominal, int(math.max(at, now)), early and 1 or 0,
    number(task[2]) or 0, number(task[3]) or 0, number(task[4]) or 0}
end

local function look(id)
  return redis.pcall('HMGET', prefix .. id, 'payload', 'failed', 'releases', 'interruptions',
    'outcome', 'due', 'seen', 'started')
end

local function take(want, early_ms, lead, lease, fence)
  local found = redis.call('ZRANGEBYSCORE', due, '-inf', int(now + early_ms), 'WITHSCORES',
    'LIMIT', 0, want)
  local rows, ids, leases, bytes = {}, {}, {}, 0
  for index = 1, #found, 2 do
    local id, score = found[index], tonumber(found[index + 1])
    local task = look(id)
    if not refuse(id, score, task) then
      bytes = bytes + #(task[1] or '')
      if bytes > max_bytes and #rows > 0 then
        break
      end
      rows[#rows + 1] = take_one(id, score, task, fence, lead)
      ids[#ids + 1] = id
      leases[#leases + 1] = int(now + lease)
      leases[#leases + 1] = id
      note('claimed', id)
    end
  end
  if #ids > 0 then
    redis.call('ZREM', due, unpack(ids))
    redis.call('ZREM', done, unpack(ids))
    redis.call('ZREM', dead, unpack(ids))
    redis.call('ZADD', leased, unpack(leases))
  end
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', due, '(' .. int(last_ms), '+inf', 'LIMIT', 0, 5)) do
    refuse(id, last_ms + 1, look(id))
  end
  return rows, ids
end
