#!lua
-- Makes tasks for ticks of the past. The watermark stays; overlap neither counts nor is counted.
--
-- KEYS[1..6], ARGV[1..6]: see include/type.lua
-- KEYS[7]  cron   hash of the schedule
-- ARGV[7]  name   name of the schedule
-- ARGV[8]  count  how many ticks follow, three arguments each: tick (ms), due (ms), id
--
-- Returns {0, now µs, code, codes}: 1, or 15 gone, 17 broken key, 18 moved; of each tick 1 made,
--         6 the id exists, 14 too early
--         {-1, now µs} too late
--
-- @include type guard events live changed
local cron, name, count = KEYS[7], ARGV[7], tonumber(ARGV[8])

local one = schedule(name, cron)
local known = one.read()
local code, codes = closed(known) or 1, {}
for index = 1, code == 1 and count or 0 do
  local at = index * 3 + 6
  local tick, id = ARGV[at], ARGV[at + 2]
  codes[index] = tonumber(tick) > now and 14 or one.is_taken(id) and 6 or 1
  if codes[index] == 1 then
    one.start(id, ARGV[at + 1], tick, '', true)
    one.record(known, 'backfilled', 't', tick, 'id', id)
  end
end
write_events()
return {0, now_us, code, codes}
