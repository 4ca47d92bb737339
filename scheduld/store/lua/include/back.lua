-- Undoes a claim whose run has not begun. What was put in its place since takes the id.
local function take_back(id)
  local key = prefix .. id
  local task = redis.call('HMGET', key, 'early', 'due', 'next', 'key')
  unlease(id)
  leave_key(id, task[4])
  if not hand_over(id, redis.call('ZSCORE', due, id), task[3]) then
    redis.call('HDEL', key, 'early', 'fence')
    set_due(id, number(task[1]) or number(task[2]) or now)
  end
end
