-- Answers a claim again whose answer was lost: those of its tasks that are still leased by it.
-- Nobody has begun them: of a paused type they are taken back instead.
-- The record of a claim is 'SEQUENCE\n' and then its fence and ids in msgpack.
local function replay(record, lease, is_paused)
  local claimed = cmsgpack.unpack(string.sub(record, string.find(record, '\n') + 1))
  local fence, rows = claimed[1], {}
  for index = 2, #claimed do
    local id = claimed[index]
    local task = redis.pcall('HMGET', prefix .. id, 'fence', 'payload', 'due', 'early', 'started',
      'failed', 'releases', 'interruptions', 'every', 'series', 'schedule', 'over')
    if task.err or task[1] ~= fence or not redis.call('ZSCORE', leased, id) then
      -- It is somebody else's by now.
    elseif is_paused then
      take_back(id)
    else
      redis.call('ZADD', leased, int(now + lease), id)
      rows[#rows + 1] = {id, task[2], int(number(task[3]) or now),
        int(number(task[4] or task[5]) or now), task[4] and 1 or 0,
        number(task[6]) or 0, number(task[7]) or 0, number(task[8]) or 0, 0,
        (task[9] or task[10] or task[11] or task[12]) and series_of(prefix .. id) or nil}
    end
  end
  return rows, fence
end
