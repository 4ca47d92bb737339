-- Gives back the tasks of replicas that died. Answers how many.
--
-- bound: only leases that ended at or before this ms. A sweeper passes a server time that it
-- has itself seen pass a while ago, so a step or a freeze of the clock lets live replicas
-- renew before anything is taken from them.
local function give_back(id, max_interruptions)
  local key = prefix .. id
  local task = redis.pcall('HMGET', key, 'early', 'cancel', 'next', 'interruptions', 'due')
  redis.call('ZREM', leased, id)
  if task.err then
    bury(id, '', 'wrong_type: the key of the task does not hold a hash')
    return
  end
  local again = redis.call('ZSCORE', due, id)
  if task[1] then
    redis.call('HDEL', key, 'early')
    set_due(id, tonumber(again or task[1]))
  elseif task[3] then
    note('lost', id)
    promote(id, task[3])
  elseif again then
    note('lost', id)
    reborn(id)
  elseif task[2] then
    end_cancelled(id)
  else
    local lost = redis.call('HINCRBY', key, 'interruptions', 1)
    if lost >= max_interruptions then
      local words = 'the worker was lost in ' .. lost .. ' runs'
      bury(id, '{"kind":"interrupted","message":"' .. words .. '"}', 'interrupted: ' .. words)
    else
      note('lost', id)
      set_due(id, tonumber(task[5]) or now)
    end
  end
end

local function recover(bound, lease, max_interruptions, limit)
  -- Behind a backward step of the clock a lease would last for as long as the step was.
  local longest = math.max(lease, tonumber(redis.call('HGET', meta, 'lease')) or 0)
  local beyond = redis.call('ZRANGEBYSCORE', leased, '(' .. int(now + 2 * longest), '+inf',
    'LIMIT', 0, limit)
  for _, id in ipairs(beyond) do
    redis.call('ZADD', leased, int(now + lease), id)
  end
  local ended = redis.call('ZRANGEBYSCORE', leased, '-inf', int(math.min(bound, now)),
    'LIMIT', 0, limit)
  for _, id in ipairs(ended) do
    give_back(id, max_interruptions)
  end
  return #ended
end
