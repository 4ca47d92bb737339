-- What tasks say about load (fields priority, key, unique of their hashes) where they enter and
-- leave due and leased. The helper keys of this are hints: what they say is checked against due
-- and leased before it is used, so one that is wrong costs time and no task. A foreign value in
-- the place of one is passed over.
-- This call has said that the type uses priorities.
local weighs

local function unlease(id)
  local was_held = redis.call('ZREM', leased, id) == 1
  freed = freed or was_held
  return was_held
end

-- A task whose score was moved keeps where it was: 'FROM TO', which holds while its score is TO.
local function origin(score, moved)
  local from, to = string.match(type(moved) == 'string' and moved or '', '^(%d+) (%d+)$')
  return to and tonumber(to) == tonumber(score) and tonumber(from) or tonumber(score)
end

local function move_due(id, from, to)
  local key = prefix .. id
  from = int(from > 0 and from or now)
  redis.call('ZADD', due, int(to), id)
  redis.call('HSET', key, 'moved', from .. ' ' .. int(math.max(to, 0)))
  redis.call('HSETNX', key, 'due', from)
end

local function priority_of(text)
  local value = tonumber(text)
  return value and value >= -100 and value <= 100 and value ~= 0 and value or nil
end

-- A point of priority is worth a minute of waiting: a task that is due stands in due by that.
-- One that goes back behind now stands in `lazy` too, for a claim that has nothing better.
local function weigh(id, at, priority)
  local score = math.floor(at - priority * 60000)
  move_due(id, at, score)
  if priority < 0 then
    redis.pcall('ZADD', root .. 'lazy', int(score), id)
    weighs = weighs or redis.call('HSET', meta, 'weighs', '1')
  end
  return score
end

local function set_due(id, at)
  local priority = redis.pcall('HGET', prefix .. id, 'priority')
  priority = priority and not priority.err and priority_of(priority)
  if priority and at <= now then
    lower(weigh(id, at, priority))
    hidden = hidden or priority < 0
    return
  end
  if priority then
    redis.pcall('ZADD', root .. 'prio', int(at), id)
    weighs = weighs or redis.call('HSET', meta, 'weighs', '1')
  end
  redis.call('ZADD', due, int(at), id)
  lower(at)
end

-- The first of those that wait for a place of their key stand in due as before.
local function release(key, count)
  for _ = 1, 20 do
    local first = count > 0 and redis.pcall('ZPOPMIN', root .. 'parked:' .. key)
    if not first or first.err or not first[1] then
      return
    end
    local id, at = first[1], tonumber(first[2])
    local score, moved = redis.call('ZSCORE', due, id), redis.pcall('HGET', prefix .. id, 'moved')
    if score and type(moved) == 'string' and origin(score, moved) ~= tonumber(score) then
      move_due(id, origin(score, moved), at)
      lower(at)
      count = count - 1
    end
  end
end

-- The run of a task is over: its place goes to the next one of its key.
local function leave_key(id, key)
  if key and redis.pcall('ZREM', root .. 'holders:' .. key, id) == 1 then
    release(key, 1)
  end
end

-- A task that was moved will not start as it stands: who waits for its key must not wait for it,
-- nor, if it had been let go, for a place that it does not take.
local function leave_line(id, key, moved)
  if not (key and moved) then
    return
  end
  local waits = redis.pcall('ZREM', root .. 'parked:' .. key, id) == 1
  if redis.pcall('ZREM', root .. 'paced:' .. key, id) ~= 1 and not waits then
    release(key, 1)
  end
end

-- The task is over: others may be added for what it was unique in, unless that has a period.
-- is_gone: cancelled or replaced, as if it had never been.
local function leave_unique(id, digest, is_gone)
  local record = root .. 'unique:' .. (digest or '')
  if digest and redis.pcall('GET', record) == id and (is_gone or redis.call('PTTL', record) == -1) then
    redis.call('DEL', record)
  end
end

-- is_followed: another task takes the id, and its place in the schedule.
local function leave(id, is_gone, is_followed)
  local task = redis.pcall('HMGET', prefix .. id, 'key', 'unique', 'priority', 'moved', 'schedule')
  if not is_followed then
    leave_live(id, task[5])
  end
  if task.err then
    return
  end
  leave_key(id, task[1])
  leave_line(id, task[1], task[4])
  leave_unique(id, task[2], is_gone)
  if task[3] then
    redis.pcall('ZREM', root .. 'prio', id)
    redis.pcall('ZREM', root .. 'lazy', id)
  end
end
