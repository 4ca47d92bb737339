-- A sliding window: a zset of the newest starts, at the ms for which they were claimed. Made when
-- it is asked for, as all of load control is: a function costs a call something even if unused.
local function sliding_window(key, most, period)
  local window = {}

  -- How many more may start now. A start that lies ahead by more than an early claim can tell is
  -- one from before the clock was set back.
  function window.free()
    redis.pcall('ZREMRANGEBYSCORE', key, '-inf', int(now - period))
    redis.pcall('ZREMRANGEBYSCORE', key, '(' .. int(now + 1000), '+inf')
    local used = redis.pcall('ZCARD', key)
    return type(used) == 'number' and most - used or most
  end

  -- When the place-th of those that wait (from 0) may start, if each of them does.
  function window.at(place)
    local used = redis.pcall('ZCARD', key)
    local rank = type(used) == 'number' and math.max(used - most, 0) + place % most
    local start = rank and rank < used and redis.pcall('ZRANGE', key, rank, rank, 'WITHSCORES')[2]
    return (tonumber(start) or now) + period * (1 + math.floor(place / most))
  end

  -- starts: pairs of ms and a name of its own.
  function window.note(starts)
    if #starts > 0 then
      redis.pcall('ZADD', key, unpack(starts))
      redis.pcall('PEXPIRE', key, int(period + 1000))
    end
  end

  return window
end
