-- Before a claim of a type that uses priorities: what came due gets the place that its priority
-- gives it, and what stands behind now for a low one is taken forward if there is room for it.
local weigh_limit = 200

local function weigh_due()
  local ids = redis.pcall('ZRANGEBYSCORE', root .. 'prio', '-inf', int(now), 'LIMIT', '0', weigh_limit)
  if ids.err or #ids == 0 then
    return
  end
  local scores, gone = redis.call('ZMSCORE', due, unpack(ids)), {}
  for index, id in ipairs(ids) do
    local score = tonumber(scores[index])
    if score and score > now then
      redis.call('ZADD', root .. 'prio', int(score), id)
    else
      gone[#gone + 1] = id
      local task = score and redis.pcall('HMGET', prefix .. id, 'priority', 'moved')
      local priority = task and not task.err and priority_of(task[1])
      if priority and origin(score, task[2]) == score then
        weigh(id, score, priority)
      end
    end
  end
  if #gone > 0 then
    redis.call('ZREM', root .. 'prio', unpack(gone))
  end
end

-- Answers whether some are left.
local function take_forward(want)
  local lazy = root .. 'lazy'
  local spare = math.max(0, want - redis.call('ZCOUNT', due, '-inf', int(now)))
  local pairs_ = redis.pcall('ZRANGE', lazy, '0', math.min(spare, weigh_limit) + 20, 'WITHSCORES')
  if pairs_.err or #pairs_ == 0 then
    return false
  end
  local ids, gone = {}, {}
  for index = 1, #pairs_ / 2 do
    ids[index] = pairs_[index * 2 - 1]
  end
  local scores = redis.call('ZMSCORE', due, unpack(ids))
  for index, id in ipairs(ids) do
    local score = scores[index]
    if score ~= pairs_[index * 2] or tonumber(score) <= now then
      gone[#gone + 1] = id
    elseif spare > 0 then
      spare = spare - 1
      move_due(id, origin(score, redis.call('HGET', prefix .. id, 'moved')), now)
      gone[#gone + 1] = id
    end
  end
  if #gone > 0 then
    redis.call('ZREM', lazy, unpack(gone))
  end
  return redis.call('ZCARD', lazy) > 0
end

-- Answers whether something may start that does not stand at the head of due.
local function order(want)
  weigh_due()
  local is_left = take_forward(want)
  if not is_left and redis.pcall('ZCARD', root .. 'prio') == 0 then
    redis.call('HDEL', meta, 'weighs')
  end
  return is_left
end
