#!lua
-- Schedules an ended task again, due now, with its counters at zero.
--
-- KEYS[1..6], ARGV[1..6]: see include/type.lua
-- KEYS[7] task  hash of the task
-- ARGV[7] id    id of the task
--
-- Returns {0, now µs, code, state}: 1 scheduled, 3 refused by the state
--         {-1, now µs} too late
--
-- @include type guard events state
local task, id = KEYS[7], ARGV[7]

local state = state_of(id)
local code = 3
if state == 'done' or state == 'cancelled' or state == 'dead' then
  local kept = redis.call('HMGET', task, 'payload', 'token')
  redis.call('DEL', task)
  redis.call('ZREM', done, id)
  redis.call('ZREM', dead, id)
  redis.call('HSET', task, 'payload', kept[1] or '{}')
  if kept[2] then
    redis.call('HSET', task, 'token', kept[2])
  end
  set_due(id, now)
  note('requeued', id)
  code = 1
end
write_events()
return {0, now_us, code, state}
