-- Where an id is: 'none', 'scheduled', 'early' (scheduled, but claimed), 'running', 'done',
-- 'cancelled', 'dead', or 'broken' (its key holds no hash). Then its due and its fields.
local function state_of(id)
  local task = redis.pcall('HMGET', prefix .. id, 'outcome', 'early', 'due', 'token', 'next',
    'next_token')
  if task.err then
    return 'broken', '', {}
  end
  local lease_end = redis.call('ZSCORE', leased, id)
  if lease_end then
    return task[2] and 'early' or 'running', task[3] or '', task
  end
  local at = redis.call('ZSCORE', due, id)
  if at then
    return 'scheduled', at, task
  end
  if redis.call('ZSCORE', dead, id) then
    return 'dead', task[3] or '', task
  end
  if redis.call('ZSCORE', done, id) then
    return task[1] == 'cancelled' and 'cancelled' or 'done', task[3] or '', task
  end
  return 'none', '', task
end
