-- The ways a task leaves due and leased, apart from being claimed.
local function bury(id, error_json, reason)
  leave(id, false)
  redis.call('ZREM', due, id)
  unlease(id)
  redis.call('ZREM', done, id)
  redis.call('ZADD', dead, now, id)
  redis.pcall('HSET', prefix .. id, 'outcome', 'dead', 'error', error_json)
  note('dead', id, reason)
end

local function expire(id)
  local words = 'the task could not start before it expired'
  bury(id, '{"kind":"expired","message":"' .. words .. '"}', 'expired: ' .. words)
end

local function end_cancelled(id)
  local key = prefix .. id
  drop_successor(id)
  leave(id, true)
  redis.call('ZREM', due, id)
  unlease(id)
  redis.call('ZREM', dead, id)
  redis.call('ZADD', done, now, id)
  redis.call('HSET', key, 'outcome', 'cancelled')
  redis.call('HDEL', key, 'cancel', 'this_run', 'early', 'settled', 'over', 'grid', 'next_at', 'replan')
  note('cancelled', id)
end

-- A task was replaced while it ran: what was kept beside it becomes the task.
local function promote(id, at)
  local key = prefix .. id
  local new = redis.call('HMGET', key, 'next_payload', 'next_token', 'next_load')
  at = number(at) or now
  local ticked = tick_of(id, true)
  leave(id, false, ticked)
  redis.call('DEL', key)
  redis.call('HSET', key, 'payload', new[1] or '{}', unpack(ticked or {}))
  if new[2] and new[2] ~= '' and new[2] ~= id then
    redis.call('HSET', key, 'token', new[2])
  end
  write_load(id, at, read_load(new[3]))
  set_due(id, at)
  note('succeeded', id)
end

-- A plain ZADD of an id that runs: the hash holds the new payload, the index the new time.
local function reborn(id)
  local key = prefix .. id
  local payload = redis.call('HGET', key, 'payload')
  drop_successor(id)
  local ticked = tick_of(id, true)
  leave(id, true, ticked)
  if redis.call('DEL', key) == 1 then
    redis.call('HSET', key, 'payload', payload or '{}', unpack(ticked or {}))
  end
  note('succeeded', id)
end

-- A run is over: what waits for its end takes the id. Answers whether there was anything.
-- again: score in due, if the id is there; newer than what is kept in the hash (next_at).
local function hand_over(id, again, next_at)
  if again then
    reborn(id)
  elseif next_at then
    promote(id, next_at)
  end
  return again or next_at
end

local function count_up(key, field)
  local counted = redis.pcall('HINCRBY', key, field, 1)
  if type(counted) == 'table' then
    redis.call('HSET', key, field, 1)
    return 1
  end
  return counted
end
