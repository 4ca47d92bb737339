-- Removes a schedule: no tick of it comes any more, its waiting tasks are cancelled, running ones
-- end as they would. Looks at 500 unfinished tasks from place `start` on; answers how many were
-- cancelled, and the place to go on from or ''.
local history_ms, live_ms = 86400000, 604800000

local function remove_tasks(name, start)
  local live, cancelled = root .. 'live:' .. name, 0
  local ids = redis.pcall('ZRANGE', live, start, start + 499)
  for _, id in ipairs(ids.err and {} or ids) do
    local state = state_of(id)
    if state == 'running' then
      start = start + 1
    elseif (state == 'scheduled' or state == 'early') and stop(prefix .. id, id, state) == 1 then
      redis.call('HSET', prefix .. id, 'error', '{"kind":"schedule_removed","message":"schedule removed"}')
      cancelled = cancelled + 1
    else
      redis.call('ZREM', live, id)
    end
  end
  if #ids == 500 then
    return cancelled, int(start)
  end
  -- Should the end of a running one never be seen.
  redis.call('PEXPIRE', live, live_ms)
  return cancelled, ''
end

local function remove(name, known, reason)
  local cron, ticks = root .. 'cron:' .. name, root .. 'ticks:' .. name
  if known then
    schedule(name).record(known, 'removed', 'why', reason)
  end
  redis.call('PEXPIRE', ticks, history_ms)
  -- First, so that the end of a task has no tick to make one of.
  redis.call('DEL', cron)
  return remove_tasks(name, 0)
end
