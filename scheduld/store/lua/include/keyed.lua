-- Limits of the tasks that have one key in common. What may not start yet leaves the head of
-- due: until the place or the start that it waits for, or to be looked at again some day.
local again_ms = 60000
local keep_ms = 600000
local known_keys = {}
-- Scores and ids, to be written in one step: of due, and of the helper keys by their names.
local moved_on, helped = {}, {}

local function room_of(key, most)
  local holders = root .. 'holders:' .. key
  local ids, live = redis.pcall('ZRANGE', holders, '0', '1000'), 0
  local held = not ids.err and #ids > 0 and redis.call('ZMSCORE', leased, unpack(ids))
  for index, id in ipairs(held and ids or {}) do
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

local function size_of(helper)
  local size = redis.pcall('ZCARD', helper)
  return type(size) == 'number' and size or 0
end

local function known_of(limits, key)
  local known = known_keys[key]
  if not known then
    known = {again = 0, parked = root .. 'parked:' .. key, paced = root .. 'paced:' .. key,
      holders = root .. 'holders:' .. key, starts = root .. 'starts:' .. key}
    known.room = limits.key_running and room_of(key, limits.key_running)
    known.tokens = limits.key_count and tokens_of(known.starts, limits.key_count, limits.key_period)
    known_keys[key] = known
  end
  return known
end

local function set_aside(id, score, task, at, helper, helper_score)
  local from = origin(score, task[9])
  local shown = int(from > 0 and from or now)
  if task[6] then
    redis.call('HSET', prefix .. id, 'moved', shown .. ' ' .. int(at))
  else
    redis.call('HSET', prefix .. id, 'moved', shown .. ' ' .. int(at), 'due', shown)
  end
  moved_on[#moved_on + 1], moved_on[#moved_on + 2] = int(at), id
  local pairs_of = helped[helper] or {}
  helped[helper] = pairs_of
  pairs_of[#pairs_of + 1], pairs_of[#pairs_of + 2] = int(helper_score), id
end

-- The more wait, the later each looks by itself; the end of a run lets them go one by one.
local function park(id, score, task, known)
  local ahead = known.waiting or size_of(known.parked)
  local at = now + again_ms + ahead * 2
  known.waiting = ahead + 1
  -- Who waits already keeps its place.
  local place = task[9] and tonumber(redis.pcall('ZSCORE', known.parked, id)) or score
  set_aside(id, score, task, at, known.parked, math.max(place, 0))
end

-- Those that come first wait behind all others; one whose time has come and that finds no start
-- left (each is a little late) waits for the next.
local function pace(id, score, task, known, limits)
  local place
  if task[9] and type(redis.pcall('ZSCORE', known.paced, id)) == 'string' then
    place, known.again = known.again, known.again + 1
  else
    if not known.behind then
      local behind = redis.pcall('ZCOUNT', known.paced, '(' .. int(now), '+inf')
      known.behind = type(behind) == 'number' and behind or 0
    end
    place, known.behind = known.behind, known.behind + 1
  end
  local at = token_at(known.starts, limits.key_count, limits.key_period, place)
  set_aside(id, score, task, at, known.paced, at)
end

-- Answers whether the key of a task keeps it waiting; if not it counts as started.
local function hold_back(limits, id, score, task, fence)
  local known = known_of(limits, task[10])
  if known.room and known.room <= 0 then
    park(id, score, task, known)
    return true
  end
  if known.tokens and known.tokens <= 0 then
    pace(id, score, task, known, limits)
    return true
  end
  if known.room then
    known.room = known.room - 1
    redis.pcall('ZADD', known.holders, int(now), id)
  end
  if known.tokens then
    known.tokens = known.tokens - 1
    note_starts(known.starts, limits.key_period, {int(math.max(score, now)), fence .. ' ' .. id})
  end
  if task[9] then
    redis.pcall('ZREM', known.parked, id)
    redis.pcall('ZREM', known.paced, id)
  end
  return false
end

local function write_aside()
  if #moved_on == 0 then
    return
  end
  redis.call('ZADD', due, unpack(moved_on))
  local last = 0
  for index = 1, #moved_on, 2 do
    last = math.max(last, tonumber(moved_on[index]))
  end
  for helper, pairs_of in pairs(helped) do
    redis.pcall('ZADD', helper, unpack(pairs_of))
    redis.pcall('PEXPIRE', helper, int(last - now + keep_ms))
  end
  moved_on, helped = {}, {}
end
