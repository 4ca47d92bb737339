#!lua flags=allow-oom
-- Cancels a task that has not ended. One that runs is marked, and asked to stop.
--
-- KEYS[1..6], ARGV[1..6]: see include/type.lua
-- KEYS[7] task      hash of the task
-- ARGV[7] id        id of the task
-- ARGV[8] this_run  '1': of a periodic task only the run, or the next occurrence, ...
-- ARGV[9] seen      ... which stands for this ms of the grid, in this revision: 'MS REVISION'
-- ARGV[10] next_at  ... and is followed by one at this ms; '': the last one
--
-- Returns {0, now µs, code, state}: 1 cancelled, 2 cancelling (it runs), 3 refused by the state,
--         4 (only with this_run) it is not as it was seen
--         {-1, now µs} too late
--
-- @include type guard events live load pack ends period state anew back ready stop
local task, id, this_run, seen, next_at = KEYS[7], ARGV[7], ARGV[8], ARGV[9], ARGV[10]

local function is_as_seen()
  local known = redis.call('HMGET', task, 'grid', 'due', 'revision')
  local at = number(known[1] or known[2] or redis.call('ZSCORE', due, id))
  return int(at or 0) .. ' ' .. int(number(known[3]) or 0) == seen
end

local function skip(state)
  make_ready(id, state)
  leave_line(id, unpack(redis.call('HMGET', task, 'key', 'moved')))
  note('run_cancelled', id)
  periods().start_next(id, {at = next_at})
end

local state = state_of(id)
local is_waiting = state == 'scheduled' or state == 'early'
local code
if this_run ~= '' and (is_waiting or state == 'running') and not periods().is_periodic(task)
  or this_run ~= '' and is_waiting and not is_as_seen() then
  code = 4
elseif is_waiting and next_at ~= '' then
  skip(state)
  code = 1
elseif state == 'running' and this_run ~= '' then
  if redis.call('HSETNX', task, 'cancel', int(now)) == 1 then
    redis.call('HSET', task, 'this_run', '1')
  end
  note('cancelling', id)
  code = 2
else
  code = stop(task, id, state)
end
write_events()
if code == 2 then
  tell_to_stop(id)
end
return {0, now_us, code, state}
