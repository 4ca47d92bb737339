-- Before a claim of a type that uses priorities: what came due gets the place that its priority
-- gives it, and what stands behind now for a low one is taken forward if there is room for it.
-- Answers whether something is left that may start and does not stand at the head of due.
local function order(want)
  local most = 200
  local prio, lazy = root .. 'prio', root .. 'lazy'

  local function weigh_due()
    local ids = redis.pcall('ZRANGEBYSCORE', prio, '-inf', int(now), 'LIMIT', '0', most)
    local scores = not ids.err and #ids > 0 and redis.call('ZMSCORE', due, unpack(ids))
    for index, id in ipairs(scores and ids or {}) do
      local score = tonumber(scores[index])
      if score and score > now then
        -- Somebody gave it another time: it is looked at then.
        redis.call('ZADD', prio, int(score), id)
      else
        redis.call('ZREM', prio, id)
        local task = score and redis.pcall('HMGET', prefix .. id, 'priority', 'moved')
        local priority = task and not task.err and priority_of(task[1])
        if priority and origin(score, task[2]) == score then
          weigh(id, score, priority)
        end
      end
    end
  end

  local function take_forward()
    local spare = math.max(0, want - redis.call('ZCOUNT', due, '-inf', int(now)))
    local known = redis.pcall('ZRANGE', lazy, '0', math.min(spare, most) + 20, 'WITHSCORES')
    if known.err or #known == 0 then
      return false
    end
    local ids = {}
    for index = 1, #known / 2 do
      ids[index] = known[index * 2 - 1]
    end
    local scores = redis.call('ZMSCORE', due, unpack(ids))
    for index, id in ipairs(ids) do
      local score = scores[index]
      if score ~= known[index * 2] or tonumber(score) <= now then
        redis.call('ZREM', lazy, id)
      elseif spare > 0 then
        spare = spare - 1
        redis.call('ZREM', lazy, id)
        move_due(id, origin(score, redis.call('HGET', prefix .. id, 'moved')), now)
      end
    end
    return redis.call('ZCARD', lazy) > 0
  end

  weigh_due()
  local is_left = take_forward()
  if not is_left and redis.pcall('ZCARD', prio) == 0 then
    redis.call('HDEL', meta, 'weighs')
    weighs = nil
  end
  return is_left
end
