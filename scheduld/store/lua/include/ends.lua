-- The ways a task leaves due and leased, apart from being claimed.
local function bury(id, error_json, reason)
  redis.call('ZADD', dead, now, id)
  redis.pcall('HSET', prefix .. id, 'outcome', 'dead', 'error', error_json)
  note('dead', id, reason)
end

local function end_cancelled(id)
  local key = prefix .. id
  redis.call('ZADD', done, now, id)
  redis.call('HSET', key, 'outcome', 'cancelled')
  redis.call('HDEL', key, 'cancel', 'early', 'settled')
  note('cancelled', id)
end

-- A task was replaced while it ran: what was kept beside it becomes the task.
local function promote(id, at)
  local key = prefix .. id
  local new = redis.call('HMGET', key, 'next_payload', 'next_token')
  redis.call('DEL', key)
  redis.call('HSET', key, 'payload', new[1])
  if new[2] and new[2] ~= '' and new[2] ~= id then
    redis.call('HSET', key, 'token', new[2])
  end
  set_due(id, tonumber(at))
  note('succeeded', id)
end

-- A plain ZADD of an id that runs: the hash holds the new payload, the index the new time.
local function reborn(id)
  local key = prefix .. id
  local payload = redis.call('HGET', key, 'payload')
  redis.call('DEL', key)
  if payload then
    redis.call('HSET', key, 'payload', payload)
  else
    redis.call('HSET', key, 'payload', '{}')
  end
  note('succeeded', id)
end
