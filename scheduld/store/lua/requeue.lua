#!lua
-- Schedules ended tasks again, due now, with their counters at zero.
--
-- KEYS[1..6], ARGV[1..6]: see include/type.lua
-- KEYS[7..] tasks  hashes of the tasks
-- ARGV[7] wanted  '' or the one state that they must have
-- ARGV[8] count   how many ids follow
--
-- Returns {0, now µs, rows}, a row an id {code, state}: 1 scheduled, 3 refused by the state
--         {-1, now µs} too late
--
-- @include type guard events live load pack state
local wanted, count = ARGV[7], tonumber(ARGV[8])

local function is_ended(state)
  return state == 'done' or state == 'cancelled' or state == 'dead'
end

-- All that an add has said, but `expires`, as it is to run now, and the counters of a series.
local kept_fields = {'priority', 'key', 'unique', 'every', 'until', 'max_runs', 'zone', 'anchor',
  'series'}

local function load_of(key)
  local values, load = redis.call('HMGET', key, unpack(kept_fields)), {}
  for place, name in ipairs(kept_fields) do
    load[name] = values[place]
  end
  -- It is the one of its digest if there is no other.
  local is_free = load.unique and redis.pcall('EXISTS', root .. 'unique:' .. load.unique) == 0
  load.unique = is_free and load.unique
  return load
end

local rows = {}
for index = 1, count do
  local id, key = ARGV[8 + index], KEYS[6 + index]
  local state = state_of(id)
  rows[index] = {3, state}
  if is_ended(state) and (wanted == '' or state == wanted) then
    local kept, load = redis.call('HMGET', key, 'payload', 'token'), load_of(key)
    local ticked = tick_of(id)
    redis.call('DEL', key)
    redis.call('ZREM', done, id)
    redis.call('ZREM', dead, id)
    redis.call('HSET', key, 'payload', kept[1] or '{}', unpack(ticked or {}))
    if ticked then
      schedule(ticked[2]).join(id, ticked[4])
    end
    if kept[2] then
      redis.call('HSET', key, 'token', kept[2])
    end
    write_load(id, now, load)
    set_due(id, now)
    note('requeued', id)
    rows[index] = {1, state}
  end
end
write_events()
return {0, now_us, rows}
