-- Gives back the tasks of replicas that died. Answers how many.
--
-- bound: only leases that ended at or before this ms. A sweeper passes a server time that it
-- has itself seen pass a while ago, so a step or a freeze of the clock lets live replicas
-- renew before anything is taken from them.
local function give_back(id, max_interruptions)
  local key = prefix .. id
  local task = redis.pcall('HMGET', key, 'early', 'cancel', 'next', 'due', 'key', 'this_run')
  if task.err then
    bury(id, '', 'wrong_type: the key of the task does not hold a hash')
    return
  end
  unlease(id)
  leave_key(id, task[5])
  local early, again = task[1], redis.call('ZSCORE', due, id)
  if not early and (again or task[3]) then
    note('lost', id)
  end
  if hand_over(id, again, task[3]) then
    return
  end
  if early then
    -- It never ran: nothing to count, and no verdict to wait for.
    redis.call('HDEL', key, 'early', 'fence')
    set_due(id, number(early) or now)
  elseif task[2] and task[6] and periods().is_periodic(key) then
    redis.call('HDEL', key, 'fence')
    periods().leave_out(id)
  elseif task[2] then
    end_cancelled(id)
  elseif redis.call('EXISTS', key) == 0 then
    bury(id, '{"kind":"no_hash","message":"the hash of the task was removed while it ran"}',
      'no_hash: removed while it ran')
  else
    local lost = count_up(key, 'interruptions')
    if lost >= max_interruptions and periods().is_periodic(key) then
      -- Its series goes on: the next claim ends the occurrence, and runs nothing.
      redis.call('HSETNX', key, 'over', 'interrupted')
      note('lost', id)
      set_due(id, number(task[4]) or now)
    elseif lost >= max_interruptions then
      local words = 'the worker was lost in ' .. lost .. ' runs'
      bury(id, '{"kind":"interrupted","message":"' .. words .. '"}', 'interrupted: ' .. words)
    else
      note('lost', id)
      set_due(id, number(task[4]) or now)
    end
  end
end

local function recover(bound, lease, longest_lease, max_interruptions, limit)
  if sizes[leased] == 0 then
    return 0
  end
  -- Behind a backward step of the clock a lease would last for as long as the step was.
  local longest = math.max(lease, number(longest_lease) or 0)
  local beyond = redis.call('ZRANGEBYSCORE', leased, '(' .. int(now + 2 * longest), '+inf',
    'LIMIT', '0', limit)
  for _, id in ipairs(beyond) do
    redis.call('ZADD', leased, int(now + lease), id)
  end
  local ended = redis.call('ZRANGEBYSCORE', leased, '-inf', int(math.min(bound, now)),
    'LIMIT', '0', limit)
  for _, id in ipairs(ended) do
    give_back(id, max_interruptions)
  end
  return #ended
end
