-- Cancels a task that has not ended; one that runs is marked, and asked to stop.
-- Answers 1 cancelled, 2 cancelling, 3 refused by the state.
local function stop(key, id, state)
  if state == 'scheduled' or state == 'early' then
    if state == 'scheduled' then
      make_ready(id, state)
    end
    -- Without the fence a claim made early cannot start it, nor a late verdict undo this.
    redis.call('HDEL', key, 'fence', 'error')
    end_cancelled(id)
    return 1
  elseif state == 'running' then
    redis.call('HSET', key, 'cancel', int(now))
    redis.call('HDEL', key, 'this_run')
    drop_successor(id)
    redis.call('ZREM', due, id)
    note('cancelling', id)
    return 2
  end
  return state == 'cancelled' and 1 or 3
end

local function tell_to_stop(id)
  redis.pcall('PUBLISH', wake, type_name .. ' cancel ' .. id)
end
