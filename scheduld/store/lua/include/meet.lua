local function write_hash(key, id, payload, token)
  -- The id itself is the token of a generated id: nothing to store.
  if token ~= '' and token ~= id then
    redis.call('HSET', key, 'payload', payload, 'token', token)
  else
    redis.call('HSET', key, 'payload', payload)
  end
end

local function create(id, at, payload, token, kind)
  write_hash(prefix .. id, id, payload, token)
  set_due(id, at)
  note(kind, id)
  return {1, int(at), 'scheduled'}
end

-- Adds one task whose id may be kept already. Answers its row (add.lua).
local function meet(id, at, payload, token, on_conflict)
  if redis.call('EXISTS', prefix .. id) == 0 and not is_indexed(id) then
    return create(id, at, payload, token, 'added')
  end
  local state, known_due, task = state_of(id)
  if state == 'broken' then
    return {6, '', state}
  end
  if token ~= '' and task[5] and task[6] == token then
    return {2, task[5], 'running'}
  end
  if token ~= '' and state ~= 'none' and (task[4] or id) == token then
    return {2, known_due, state}
  end
  if state ~= 'none' and on_conflict ~= 'replace' then
    return {on_conflict == 'keep' and 4 or 5, known_due, state}
  end
  if state == 'running' then
    redis.call('ZREM', due, id)
    redis.call('HSET', prefix .. id, 'next', int(at), 'next_payload', payload, 'next_token', token)
    note('replaced', id)
    return {3, int(at), state}
  end
  redis.call('DEL', prefix .. id)
  redis.call('ZREM', leased, id)
  redis.call('ZREM', done, id)
  redis.call('ZREM', dead, id)
  return create(id, at, payload, token, state == 'none' and 'added' or 'replaced')
end
