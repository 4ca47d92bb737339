-- Stores the end of one run. Only the newest claim's verdict is kept.
-- Answers 1 stored, 2 already stored, 3 refused (another claim, or the task is gone).
-- told: '' or, of an occurrence of a periodic task, what comes after it (include/period.lua)
local function settle(key, id, fence, kind, ms, detail, reason, counted, told)
  local task = redis.pcall('HMGET', key, 'fence', 'settled', 'outcome', 'early', 'cancel', 'next',
    'failed', 'due', 'moved', 'key', 'unique', 'this_run', 'schedule')
  if task.err or task[1] ~= fence then
    return 3
  end
  if task[2] == fence then
    return 2
  end
  if task[3] then
    -- It has ended another way: recover gave up on it.
    return 3
  end
  local is_held = unlease(id)
  if not is_held and redis.call('ZSCORE', done, id) then
    -- Done leaves no mark in the hash. Whatever begins a new life of the id removes the fence,
    -- so this is the run that is done; a plain ZADD may have put the id into due since.
    return 2
  end
  local again = redis.call('ZSCORE', due, id)
  if not is_held then
    if not again then
      return 3
    end
    -- recover gave it back, to its nominal due, and nobody claimed it since: this verdict
    -- still counts. Any other score is a plain ZADD, a new task that must stay.
    if origin(again, task[9]) == tonumber(task[8]) then
      redis.call('ZREM', due, id)
      again = nil
    end
  end
  leave_key(id, task[10])
  local early = task[4]
  if not early and (again or task[6]) then
    note(kind, id, reason ~= '' and reason or nil)
  end
  if hand_over(id, again, task[6]) then
    return 1
  end
  if early then
    -- Claimed early and never started: back as it was, nothing to count.
    redis.call('HDEL', key, 'early')
    redis.call('HSET', key, 'settled', fence)
    set_due(id, number(early) or now)
    return 1
  end
  if task[5] or told ~= '' then
    if not task[5] then
      periods().end_occurrence(id, kind, read_load(told), detail, reason, counted)
    elseif task[12] and periods().is_periodic(key) then
      periods().leave_out(id)
    else
      end_cancelled(id)
    end
    redis.call('HSET', key, 'settled', fence)
    return 1
  end
  if kind == 'done' then
    redis.call('ZADD', done, now, id)
    leave_unique(id, task[11], false)
    if task[13] then
      leave_live(id, task[13])
    end
    if detail ~= '' then
      redis.call('HSET', key, 'result', detail)
    end
    if task[7] then
      redis.call('HDEL', key, 'error')
    end
    note('done', id)
    return 1
  end
  redis.call('HSET', key, 'settled', fence)
  if kind == 'dead' then
    if counted == '1' then
      count_up(key, 'failed')
    end
    bury(id, detail, reason)
  elseif kind == 'retry' then
    count_up(key, 'failed')
    redis.call('HSET', key, 'error', detail)
    note('retry', id, reason)
    set_due(id, now + tonumber(ms))
  elseif kind == 'release' then
    count_up(key, 'releases')
    note('released', id)
    set_due(id, now + tonumber(ms))
  else
    note('snoozed', id)
    set_due(id, tonumber(ms))
  end
  return 1
end
