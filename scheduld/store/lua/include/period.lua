-- Ends of the occurrences of periodic tasks. Whoever ends one has computed what comes next
-- (scheduld/engine/reschedule.py) and tells it, in lines of NAME=VALUE:
--   at        ms of the next occurrence ...
--   grid      ... and the next instant of the grid, if that is another one
--   ends      or why there is none: predicate, until, max_runs, broken
--   missed    how many instants of the grid were passed over
--   revision  the task's (payload_revision: that of the last edit of a running one's payload), ...
--   digest    ... and the SHA-1 of its payload, as the claim had them
--   payload   the next occurrence's, if the predicate has changed it
--   error     JSON: what kept the predicate's answer from being used ...
--   failed    ... and one line of it for the events
--   copy      id under which an occurrence that is dead is kept ...
--   seen      ... and the payload that it ran with
-- A field `over` marks one that has ended and waits, in due, for somebody who can compute.
--
-- Made when it is asked for, as load control is (include/window.lua).
local made_periods

local function periods()
  if made_periods then
    return made_periods
  end
  local of_series = {'every', 'until', 'max_runs', 'zone', 'anchor', 'series', 'runs', 'missed',
    'grid', 'next_at', 'replan'}
  local of_occurrence = {'failed', 'releases', 'interruptions', 'error', 'progress', 'due', 'moved',
    'started', 'grid', 'next_at', 'replan', 'payload_revision', 'over', 'cancel', 'this_run'}
  local of_others = {'unique', 'first', 'settled', 'edited', 'revision', 'payload_revision', 'token',
    'over', 'cancel', 'this_run', 'early'}

  local function is_periodic(key)
    local task = redis.pcall('HMGET', key, 'every', 'series')
    return not task.err and (task[1] or task[2])
  end

  -- Whether what is changed of a task now is for the occurrence after this one.
  local function is_for_next(key, state)
    local task = redis.pcall('HMGET', key, 'every', 'series', 'over', 'next', 'cancel', 'this_run')
    if task.err or not (task[1] or task[2]) then
      return false
    end
    return state == 'scheduled' and task[3]
      or state == 'running' and not task[4] and (task[6] or not task[5])
  end

  -- Whether none will follow the run, whatever the grid has.
  local function is_last(key, state)
    local task = redis.call('HMGET', key, 'runs', 'max_runs')
    local most = state == 'running' and number(task[2])
    return most and (number(task[1]) or 0) + 1 >= most
  end

  local function change_period(key, text, is_next)
    local change = read_load(text)
    change.text = nil
    -- Of one that has begun since the caller looked: its end finds the instant of the next one.
    change.grid = not is_next and change.grid or nil
    for name, value in pairs(change) do
      if value == '' then
        redis.call('HDEL', key, name)
      else
        redis.call('HSET', key, name, value)
      end
    end
    if is_next then
      -- What its end computes from is what the claim has read.
      redis.call('HSET', key, 'replan', '1')
    end
  end

  -- One occurrence is moved, and stands for the same instant of the grid.
  local function keep_grid(key, score)
    local nominal = redis.call('HGET', key, 'due') or score
    if is_periodic(key) and number(nominal) then
      redis.call('HSETNX', key, 'grid', int(number(nominal)))
    end
  end

  -- Into due as it stands, for a claim that runs nothing and computes what comes next.
  local function plan_later(id, over)
    local key = prefix .. id
    local task = redis.call('HMGET', key, 'due', 'grid', 'next_at')
    local nominal = number(task[1]) or now
    redis.call('HDEL', key, unpack(of_occurrence))
    redis.call('HSET', key, 'over', over, 'due', int(nominal))
    for place, name in ipairs({'grid', 'next_at'}) do
      if task[place + 1] then
        redis.call('HSET', key, name, task[place + 1])
      end
    end
    set_due(id, nominal)
  end

  -- A run that was asked to stop is over, its end is not used, and the series goes on.
  local function leave_out(id)
    note('run_cancelled', id)
    plan_later(id, 'cancelled')
  end

  -- Keeps an occurrence that is dead as a task of its own, without what makes it periodic.
  local function keep_dead(id, told, detail, reason)
    local key, copy = prefix .. id, told.copy
    local is_free = copy and redis.call('EXISTS', prefix .. copy) == 0
      and not (redis.call('ZSCORE', due, copy) or redis.call('ZSCORE', leased, copy))
    if is_free then
      redis.call('COPY', key, prefix .. copy)
      redis.call('HDEL', prefix .. copy, unpack(of_series))
      redis.call('HDEL', prefix .. copy, unpack(of_others))
      redis.call('HSET', prefix .. copy, 'payload', told.seen, 'outcome', 'dead', 'error', detail)
      redis.call('ZADD', dead, now, copy)
    end
    -- If another task has that id, it is not lost for this one: then only the event tells.
    note('dead', is_free and copy or id, reason)
  end

  local function end_series(id, kind, told, why, is_cancelled, detail, reason)
    local key = prefix .. id
    redis.call('HDEL', key, 'grid', 'next_at', 'replan', 'over')
    if kind == 'dead' then
      bury(id, detail, reason)
    elseif is_cancelled then
      end_cancelled(id)
    else
      leave(id, false)
      redis.call('ZADD', done, now, id)
      redis.call('HDEL', key, 'error')
      if told.error then
        redis.call('HSET', key, 'error', told.error)
      end
    end
    redis.call('HSET', key, 'ends', why)
    note('finished', id, 'finished: ' .. why)
  end

  local function start_next(id, told, next_at)
    local key, at = prefix .. id, next_at or told.at
    -- What people moved stands for the instant that it was moved from.
    local grid = next_at and (told.grid or told.at)
    redis.call('HDEL', key, unpack(of_occurrence))
    if grid then
      redis.call('HSET', key, 'grid', grid)
    end
    if told.error then
      redis.call('HSET', key, 'error', told.error)
    end
    set_due(id, tonumber(at))
    note('rescheduled', id)
    if told.missed then
      note('missed', id, 'missed: ' .. told.missed .. ' of ' .. id)
    end
  end

  -- What an occurrence leaves: its count, its result, its payload for the next one.
  local function book(id, kind, told, detail, counted, is_changed)
    local key = prefix .. id
    if kind ~= 'plan' then
      count_up(key, 'runs')
    end
    if kind == 'dead' and counted == '1' then
      count_up(key, 'failed')
    end
    if kind == 'done' and detail ~= '' then
      redis.call('HSET', key, 'result', detail)
    elseif kind ~= 'plan' then
      redis.call('HDEL', key, 'result')
    end
    if told.missed and type(redis.pcall('HINCRBY', key, 'missed', told.missed)) == 'table' then
      redis.call('HSET', key, 'missed', told.missed)
    end
    if told.failed then
      note('reschedule_failed', id, told.failed)
    end
    if told.payload and is_changed then
      note('patch_dropped', id, 'patch_dropped: ' .. id .. ' was edited while it ran')
    elseif told.payload then
      redis.call('HSET', key, 'payload', told.payload)
    end
  end

  -- kind: done, dead, or plan for one that was over before.
  local function end_occurrence(id, kind, told, detail, reason, counted)
    local task = redis.call('HMGET', prefix .. id, 'over', 'payload_revision', 'payload', 'replan', 'every',
      'series', 'next_at')
    local next_at = number(task[7])
    local is_changed = (number(task[2]) or 0) > tonumber(told.revision)
      or redis.sha1hex(task[3] or '') ~= told.digest
    -- The grid of a ladder hangs on the payload.
    local is_stale = task[4] or is_changed and task[6]
    local ends = told.ends
    if next_at and (ends == 'until' or ends == 'series') then
      -- Somebody has asked for one more, as one that waits may be moved to after `until`.
      ends, told.at = nil, int(next_at)
    end
    if not (task[5] or task[6]) then
      ends = 'no longer periodic'
    elseif is_stale and ends ~= 'predicate' then
      ends = nil
    end
    if kind == 'done' then
      note('done', id)
    end
    if is_stale then
      -- Who plans it will count by the rule that holds then.
      told.missed = nil
    end
    book(id, kind, told, detail, counted, is_changed)
    if ends then
      end_series(id, kind, told, ends, task[1] == 'cancelled', detail, reason)
      return
    end
    if kind == 'dead' then
      keep_dead(id, told, detail, reason)
    end
    if is_stale then
      plan_later(id, task[1] == 'cancelled' and task[1] or 'planned')
    else
      start_next(id, told, next_at)
    end
  end

  made_periods = {
    is_periodic = is_periodic,
    is_for_next = is_for_next,
    is_last = is_last,
    change_period = change_period,
    keep_grid = keep_grid,
    leave_out = leave_out,
    start_next = start_next,
    end_occurrence = end_occurrence,
  }
  return made_periods
end
