-- Frees a scheduled id (state_of) from its past before it is changed: a claim made early, a late
-- verdict that could undo the change, an earlier life.
local function make_ready(id, state)
  local key = prefix .. id
  if state == 'early' then
    take_back(id)
  end
  local ended = redis.call('ZREM', done, id) + redis.call('ZREM', dead, id)
  if ended > 0 or redis.call('HEXISTS', key, 'outcome') == 1 then
    begin_anew(id)
  end
  redis.call('HDEL', key, 'fence', 'settled')
end
