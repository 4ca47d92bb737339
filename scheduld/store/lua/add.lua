#!lua
-- Schedules tasks: hash and index together.
--
-- KEYS[1..6], ARGV[1..6]: see include/type.lua
-- KEYS[7..]  tasks        hashes of the tasks
-- ARGV[7]    on_conflict  error, keep or replace: what to do where the id is kept already
-- ARGV[8]    count        how many tasks follow, five arguments each: id, at ('' or ms),
--                         delay (ms from now, if there is no at), payload (JSON text),
--                         token (of this add; a repeat with the same one answers as the first)
--
-- Returns {0, now µs, rows}, a row a task {code, due ms, state}: 1 created, 2 the same add was
--         stored before, 3 created as successor of the running one, 4 kept, 5 exists, 6 broken key
--         {-1, now µs} too late
--
-- @include type events state
local on_conflict, count = ARGV[7], tonumber(ARGV[8])

local function write(id, at, payload, token)
  local key = prefix .. id
  -- The id itself is the token of a generated id: nothing to store.
  if token ~= '' and token ~= id then
    redis.call('HSET', key, 'payload', payload, 'token', token)
  else
    redis.call('HSET', key, 'payload', payload)
  end
  set_due(id, at)
end

local function meet(id, at, payload, token)
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
  write(id, at, payload, token)
  note(state == 'none' and 'added' or 'replaced', id)
  return {1, int(at), 'scheduled'}
end

local rows = {}
for index = 1, count do
  local from = 8 + (index - 1) * 5
  local id, at, delay = ARGV[from + 1], ARGV[from + 2], ARGV[from + 3]
  local payload, token = ARGV[from + 4], ARGV[from + 5]
  at = at ~= '' and tonumber(at) or now + tonumber(delay)
  if redis.call('EXISTS', KEYS[6 + index]) == 0 and not is_indexed(id) then
    write(id, at, payload, token)
    note('added', id)
    rows[index] = {1, int(at), 'scheduled'}
  else
    rows[index] = meet(id, at, payload, token)
  end
end
write_events()
return {0, now_us, rows}
