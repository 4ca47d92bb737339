#!lua
-- Schedules tasks: hash and index together.
--
-- KEYS[1..6], ARGV[1..6]: see include/type.lua
-- KEYS[7..]  tasks        hashes of the tasks
-- ARGV[7]    on_conflict  error, keep or replace: what to do where the id is kept already
-- ARGV[8]    loads        '' or how many packed loads come last, one a task (include/load.lua)
-- ARGV[9]    count        how many tasks follow, five arguments each: id, at ('' or ms),
--                         delay (ms from now, if there is no at), payload (JSON text),
--                         token (of this add; a repeat with the same one answers as the first)
--
-- Returns {0, now µs, rows}, a row a task {code, due ms, state, id if it is another's}: 1 created,
--         2 the same add was stored before, 3 created as successor of the running one, 4 kept,
--         5 exists, 6 broken key, 7 put off (debounce); no rows where all were created, at their
--         `at` or `delay` after now
--         {-1, now µs} too late
--
-- @include type events live load pack state meet admit
local on_conflict, loads, count = ARGV[7], ARGV[8], tonumber(ARGV[9])

local ids, times, scores, known, is_twice = {}, {}, {}, {}, false
for index = 1, count do
  local from = 4 + index * 5
  local id, at, delay = ARGV[from + 1], ARGV[from + 2], ARGV[from + 3]
  local time = at ~= '' and tonumber(at) or now + tonumber(delay)
  is_twice = is_twice or known[id]
  known[id], ids[index], times[index] = true, id, time
  scores[index * 2 - 1], scores[index * 2] = at ~= '' and at or int(time), id
end

-- These looks are also the guard against wrong types of keys (include/guard.lua).
local function is_any_in(index)
  if count ~= 1 and (redis.call('ZCARD', index) == 0 or count == 0) then
    return false
  end
  for _, score in ipairs(redis.call('ZMSCORE', index, unpack(ids))) do
    if score then
      return true
    end
  end
  return false
end
local in_due, in_leased = is_any_in(due), is_any_in(leased)
local in_done, in_dead = is_any_in(done), is_any_in(dead)
redis.call('HLEN', meta)
redis.call('XLEN', events)

-- Most calls bring ids that were never seen: these need no closer look, one by one.
local rows = {}
if count > 0 and loads == '' and not (is_twice or in_due or in_leased or in_done or in_dead)
  and redis.call('EXISTS', unpack(KEYS, 7, 6 + count)) == 0 then
  for index, id in ipairs(ids) do
    local from = 4 + index * 5
    write_hash(KEYS[6 + index], id, ARGV[from + 4], ARGV[from + 5])
  end
  redis.call('ZADD', due, unpack(scores))
  lower(math.min(unpack(times)))
  note_all('added', ids)
else
  for index, id in ipairs(ids) do
    local from = 4 + index * 5
    local load = loads ~= '' and ARGV[9 + count * 5 + index] or ''
    rows[index] = admit(id, times[index], ARGV[from + 4], ARGV[from + 5], on_conflict, load)
  end
end
write_events()
return {0, now_us, rows}
