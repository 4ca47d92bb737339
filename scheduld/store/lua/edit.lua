#!lua
-- Changes a task that has not begun; of a periodic one that runs, its next occurrence.
--
-- KEYS[1..6], ARGV[1..6]: see include/type.lua
-- KEYS[7]  task      hash of the task
-- ARGV[7]  id        id of the task
-- ARGV[8]  token     of this edit; a repeat with the same one changes nothing
-- ARGV[9]  revision  '' or the revision that the task must have
-- ARGV[10] digest    '' or the SHA-1 that its stored payload must have
-- ARGV[11] at        '' or the new due ms ...
-- ARGV[12] delay     ... or '' or the ms from now until it is due
-- ARGV[13] payload   '' or the new payload (JSON text)
-- ARGV[14] period    '' or what changes of a periodic task: lines of NAME=VALUE, the names as in
--                    include/pack.lua; without a value: no longer
--
-- Returns {0, now µs, code, state, revision}: 1 edited (now or by the same call before),
--         3 refused by the state, 4 it has another revision, or another payload
--         {-1, now µs} too late
--
-- @include type guard events live load pack ends period state anew back ready
local task, id, token, revision, digest = KEYS[7], ARGV[7], ARGV[8], ARGV[9], ARGV[10]
local at, delay, payload, period = ARGV[11], ARGV[12], ARGV[13], ARGV[14]

local state = state_of(id)
local known = state == 'broken' and {} or redis.call('HMGET', task, 'revision', 'edited', 'payload')
local is_next = periods().is_for_next(task, state)
if is_next and period == '' and (at ~= '' or delay ~= '') then
  is_next = not periods().is_last(task, state)
end
if state == 'scheduled' and (redis.call('ZSCORE', done, id) or redis.call('ZSCORE', dead, id)) then
  -- A plain add of an ended id: its new life has no edits behind it.
  known = {false, false, known[3]}
end
local found = number(known[1]) or 0
local code = 3
if state ~= 'none' and known[2] == token then
  code = 1
elseif state == 'scheduled' or state == 'early' or is_next then
  if revision ~= '' and tonumber(revision) ~= found
    or digest ~= '' and redis.sha1hex(known[3] or '') ~= digest then
    code = 4
  else
    if not is_next then
      make_ready(id, state)
    end
    found = (number(redis.call('HGET', task, 'revision')) or 0) + 1
    redis.call('HSET', task, 'revision', int(found), 'edited', token)
    if payload ~= '' then
      redis.call('HSET', task, 'payload', payload)
      if is_next then
        redis.call('HSET', task, 'payload_revision', int(found))
      end
    end
    if period ~= '' then
      periods().change_period(task, period, is_next)
    end
    local time = at ~= '' and tonumber(at) or delay ~= '' and now + tonumber(delay)
    if time and is_next then
      redis.call('HSET', task, 'next_at', int(time))
    elseif time then
      periods().keep_grid(task, redis.call('ZSCORE', due, id))
      leave_line(id, unpack(redis.call('HMGET', task, 'key', 'moved')))
      redis.call('HDEL', task, 'due', 'moved')
      set_due(id, time)
    end
    note('edited', id)
    code = 1
  end
end
write_events()
return {0, now_us, code, state, int(found)}
