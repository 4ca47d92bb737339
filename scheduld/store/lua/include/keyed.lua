-- Limits of the tasks that have one key in common. What may not start yet leaves the head of
-- due: until the place or the start that it waits for, or to be looked at again some day.
-- most: runs at once; count and period: starts. False or nil: no limit.
local function key_limits(most, count, period)
  local again_ms, keep_ms = 60000, 600000
  local limits, known_keys = {}, {}
  -- Scores and ids, to be written in one step: of due, and of the helper keys by their names.
  local moved_on, helped = {}, {}

  local function room_of(key, holders)
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

  local function known_of(key)
    local known = known_keys[key]
    if not known then
      known = {again = 0, parked = root .. 'parked:' .. key, paced = root .. 'paced:' .. key,
        holders = root .. 'holders:' .. key}
      known.room = most and room_of(key, known.holders)
      known.window = count and sliding_window(root .. 'starts:' .. key, count, period)
      known.tokens = count and known.window.free()
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
    local ahead = known.waiting or redis.pcall('ZCARD', known.parked)
    ahead = type(ahead) == 'number' and ahead or 0
    known.waiting = ahead + 1
    -- Who waits already keeps its place.
    local place = task[9] and tonumber(redis.pcall('ZSCORE', known.parked, id)) or score
    set_aside(id, score, task, now + again_ms + ahead * 2, known.parked, math.max(place, 0))
  end

  -- Those that come first wait behind all others; one whose time has come and that finds no
  -- start left (each is a little late) waits for the next.
  local function pace(id, score, task, known)
    local place
    if task[9] and type(redis.pcall('ZSCORE', known.paced, id)) == 'string' then
      place, known.again = known.again, known.again + 1
    else
      place = known.behind or redis.pcall('ZCOUNT', known.paced, '(' .. int(now), '+inf')
      place = type(place) == 'number' and place or 0
      known.behind = place + 1
    end
    local at = known.window.at(place)
    set_aside(id, score, task, at, known.paced, at)
  end

  -- Answers whether the key of a task keeps it waiting; if not it counts as started.
  function limits.hold_back(id, score, task, fence)
    local known = known_of(task[10])
    if known.room and known.room <= 0 then
      park(id, score, task, known)
      return true
    end
    if known.tokens and known.tokens <= 0 then
      pace(id, score, task, known)
      return true
    end
    if known.room then
      known.room = known.room - 1
      redis.pcall('ZADD', known.holders, int(now), id)
    end
    if known.tokens then
      known.tokens = known.tokens - 1
      known.window.note({int(math.max(score, now)), fence .. ' ' .. id})
    end
    if task[9] then
      redis.pcall('ZREM', known.parked, id)
      redis.pcall('ZREM', known.paced, id)
    end
    return false
  end

  function limits.write_aside()
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

  return limits
end
