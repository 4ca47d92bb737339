-- Limits of the tasks that have one key in common. What may not start yet leaves the head of
-- due: until the place or the start that it waits for, or to be looked at again some day.
local again_ms = 60000
local keep_ms = 600000
local known_keys = {}

local function room_of(key, most)
  local holders = root .. 'holders:' .. key
  local ids = redis.pcall('ZRANGE', holders, '0', '1000')
  if ids.err or #ids == 0 then
    return most
  end
  local held, live = redis.call('ZMSCORE', leased, unpack(ids)), 0
  for index, id in ipairs(ids) do
    if held[index] then
      live = live + 1
    else
      redis.pcall('ZREM', holders, id)
    end
  end
  -- The limit was raised, or a hint was lost.
  release(key, math.max(0, most - live - 1))
  return most - live
end

local function known_of(limits, key)
  local known = known_keys[key]
  if not known then
    known = {again = 0}
    known.room = limits.key_running and room_of(key, limits.key_running)
    known.window = root .. 'starts:' .. key
    known.tokens = limits.key_count and tokens_of(known.window, limits.key_count, limits.key_period)
    known_keys[key] = known
  end
  return known
end

-- The more wait, the later each looks by itself; the end of a run lets them go one by one.
local function park(id, score, moved, key)
  local parked = root .. 'parked:' .. key
  local count = redis.pcall('ZCARD', parked)
  local wait = again_ms + (type(count) == 'number' and count * 2 or 0)
  redis.pcall('ZADD', parked, 'NX', int(math.max(score, 0)), id)
  redis.pcall('PEXPIRE', parked, int(wait + keep_ms))
  move_due(id, origin(score, moved), now + wait)
end

-- Those that come first wait behind all others; one whose time has come and that finds no start
-- left (each is a little late) waits for the next.
local function pace(id, score, moved, key, limits, known)
  local paced = root .. 'paced:' .. key
  local place = known.again
  if type(redis.pcall('ZSCORE', paced, id)) == 'string' then
    known.again = known.again + 1
  else
    place = redis.pcall('ZCOUNT', paced, '(' .. int(now), '+inf')
    place = type(place) == 'number' and place or 0
  end
  local at = token_at(known.window, limits.key_count, limits.key_period, place)
  redis.pcall('ZADD', paced, int(at), id)
  redis.pcall('PEXPIRE', paced, int(at - now + keep_ms))
  move_due(id, origin(score, moved), at)
end

-- Answers whether the key of a task keeps it waiting; if not it counts as started.
local function hold_back(limits, id, score, task, fence)
  local moved, key = task[9], task[10]
  local known = known_of(limits, key)
  if known.room and known.room <= 0 then
    park(id, score, moved, key)
    return true
  end
  if known.tokens and known.tokens <= 0 then
    pace(id, score, moved, key, limits, known)
    return true
  end
  if known.room then
    known.room = known.room - 1
    redis.pcall('ZADD', root .. 'holders:' .. key, int(now), id)
  end
  if known.tokens then
    known.tokens = known.tokens - 1
    note_starts(known.window, limits.key_period, {int(math.max(score, now)), fence .. ' ' .. id})
  end
  if moved then
    redis.pcall('ZREM', root .. 'parked:' .. key, id)
    redis.pcall('ZREM', root .. 'paced:' .. key, id)
  end
  return false
end
