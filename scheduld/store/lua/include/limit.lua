-- Limits of a type, over all replicas: runs at once, and starts in any period (a sliding window).
-- A window is a zset of the newest starts, at the ms for which they were claimed.
local function read_limits(text)
  local numbers, index = {}, 0
  for word in string.gmatch(text, '%S+') do
    index = index + 1
    numbers[index] = tonumber(word)
  end
  return {running = numbers[1], count = numbers[2], period = numbers[3],
    key_running = numbers[4], key_count = numbers[5], key_period = numbers[6],
    keys = numbers[4] or numbers[5]}
end

-- How many more may start now. A start that lies ahead by more than an early claim can tell is
-- one from before the clock was set back.
local function tokens_of(window, count, period)
  redis.pcall('ZREMRANGEBYSCORE', window, '-inf', int(now - period))
  redis.pcall('ZREMRANGEBYSCORE', window, '(' .. int(now + 1000), '+inf')
  local used = redis.pcall('ZCARD', window)
  return type(used) == 'number' and count - used or count
end

-- When the place-th of those that wait (from 0) may start, if each of them does.
local function token_at(window, count, period, place)
  local used = redis.pcall('ZCARD', window)
  local rank = type(used) == 'number' and math.max(used - count, 0) + place % count
  local start = rank and rank < used and redis.pcall('ZRANGE', window, rank, rank, 'WITHSCORES')[2]
  return (tonumber(start) or now) + period * (1 + math.floor(place / count))
end

-- starts: pairs of ms and a name of its own.
local function note_starts(window, period, starts)
  if #starts > 0 then
    redis.pcall('ZADD', window, unpack(starts))
    redis.pcall('PEXPIRE', window, int(period + 1000))
  end
end

local function cut(limits, want)
  limits.room = limits.running and limits.running - redis.call('ZCARD', leased)
  limits.tokens = limits.count and tokens_of(root .. 'starts', limits.count, limits.period)
  limits.most = math.max(0, math.min(want, limits.room or want, limits.tokens or want))
  return limits.most
end

-- Takes note of what was taken, and answers when to look again if next_due is the next in due.
local function settle_limits(limits, fence, plain, rows, next_due)
  local taken = #plain / 3 + #rows
  if limits.count then
    local starts, window = {}, root .. 'starts'
    for index = 1, taken do
      local row = rows[index - #plain / 3]
      starts[index * 2 - 1] = row and row[4] or int(now)
      starts[index * 2] = fence .. ' ' .. index
    end
    note_starts(window, limits.period, starts)
    if limits.tokens - taken <= 0 and next_due ~= '' then
      next_due = int(math.max(tonumber(next_due), token_at(window, limits.count, limits.period, 0)))
    end
  end
  if limits.room then
    freed = freed and limits.room > taken
    if limits.room <= taken then
      redis.call('HSET', meta, 'full', '1')
      next_due = ''
    end
  end
  return next_due
end
