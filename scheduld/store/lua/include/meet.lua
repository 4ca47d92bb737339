local function write_hash(key, id, payload, token)
  -- The id itself is the token of a generated id: nothing to store.
  if token ~= '' and token ~= id then
    redis.call('HSET', key, 'payload', payload, 'token', token)
  else
    redis.call('HSET', key, 'payload', payload)
  end
end

local function create(id, at, payload, token, kind, load)
  write_hash(prefix .. id, id, payload, token)
  if load then
    write_load(id, at, load)
  end
  set_due(id, at)
  note(kind, id)
  return {1, int(at), 'scheduled'}
end

-- Whether what is kept stays. rerun: once more, unless that is to come anyway.
local function keeps(state, on_conflict)
  if on_conflict == 'rerun' then
    return state == 'scheduled' or state == 'early'
  end
  return state ~= 'none' and on_conflict ~= 'replace'
end

-- Stores what follows the run that goes on; the newest takes the place of an earlier one.
local function succeed(id, at, payload, token, load)
  local key = prefix .. id
  drop_successor(id)
  redis.call('HSET', key, 'next', int(at), 'next_payload', payload, 'next_token', token)
  if load then
    redis.call('HSET', key, 'next_load', load.text)
    register(id, load)
  end
end

-- Adds one task whose id may be kept already. Answers its row (add.lua).
local function meet(id, at, payload, token, on_conflict, load)
  if redis.call('EXISTS', prefix .. id) == 0 and not is_indexed(id) then
    return create(id, at, payload, token, 'added', load)
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
  if keeps(state, on_conflict) then
    return {on_conflict == 'error' and 5 or 4, known_due, state}
  end
  if state == 'running' then
    redis.call('ZREM', due, id)
    succeed(id, at, payload, token, load)
    note('replaced', id)
    return {3, int(at), state}
  end
  local ticked = (state == 'scheduled' or state == 'early') and tick_of(id, true)
  leave(id, true, ticked)
  redis.call('DEL', prefix .. id)
  unlease(id)
  redis.call('ZREM', done, id)
  redis.call('ZREM', dead, id)
  if ticked then
    redis.call('HSET', prefix .. id, unpack(ticked))
  end
  return create(id, at, payload, token, state == 'none' and 'added' or 'replaced', load)
end
