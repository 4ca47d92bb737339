#!lua flags=allow-oom
-- Cancels a task that has not ended. One that runs is marked, and asked to stop.
--
-- KEYS[1..6], ARGV[1..6]: see include/type.lua
-- KEYS[7] task  hash of the task
-- ARGV[7] id    id of the task
--
-- Returns {0, now µs, code, state}: 1 cancelled, 2 cancelling (it runs), 3 refused by the state
--         {-1, now µs} too late
--
-- @include type guard events load pack ends state anew back ready
local task, id = KEYS[7], ARGV[7]

local state = state_of(id)
local code = 3
if state == 'scheduled' or state == 'early' then
  if state == 'scheduled' then
    make_ready(id, state)
  end
  -- Without the fence a claim made early cannot start it, nor a late verdict undo this.
  redis.call('HDEL', task, 'fence', 'error')
  end_cancelled(id)
  code = 1
elseif state == 'running' then
  redis.call('HSET', task, 'cancel', int(now))
  drop_successor(id)
  redis.call('ZREM', due, id)
  note('cancelling', id)
  code = 2
elseif state == 'cancelled' then
  code = 1
end
write_events()
if code == 2 then
  redis.pcall('PUBLISH', wake, type_name .. ' cancel ' .. id)
end
return {0, now_us, code, state}
