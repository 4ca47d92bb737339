#!lua
-- Makes a task of a schedule now, by hand: of no tick, so that the watermark stays.
--
-- KEYS[1..6], ARGV[1..6]: see include/type.lua
-- KEYS[7] cron     hash of the schedule
-- ARGV[7] name     name of the schedule
-- ARGV[8] id       id of the task, made for this call
-- ARGV[9] payload  '' for the schedule's own, or JSON text
--
-- Returns {0, now µs, code}: as of a tick (cron_tick.lua) 1 fired, 2 queued, 3 skipped (overlap),
--         4 coalesced, 5 backlog, 6 made before, 15 gone, 17 broken key, 18 moved
--         {-1, now µs} too late
--
-- @include type guard events live load pack ends state anew back ready stop overlap changed
local cron, name, id, payload = KEYS[7], ARGV[7], ARGV[8], ARGV[9]
local words = {'fired', 'queued', 'skipped', 'coalesced', 'backlog'}

local one, stopped = schedule(name, cron), {}
local known = one.read()
local code = closed(known)
if not code and one.is_taken(id) then
  code = 6
elseif not code and string.match(known.queued or '', '^%d* %d+ (%S+) ') == id then
  code = 2
elseif not code then
  code = overlap_of(one, known, false, stopped)
  if code == 1 then
    one.start(id, int(now), '', payload)
  elseif code == 2 then
    redis.call('HSET', cron, 'queued', ' ' .. int(now) .. ' ' .. id .. ' ' .. payload)
  end
  one.told(known, '', words[code], id, code == 3 and 'overlap' or 'manual')
end
write_events()
for _, running in ipairs(stopped) do
  tell_to_stop(running)
end
return {0, now_us, code}
