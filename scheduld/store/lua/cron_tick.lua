#!lua
-- Fires ticks of schedules, each once: moves the watermark, decides by overlap, makes the task.
--
-- KEYS[1..6], ARGV[1..6]: see include/type.lua
-- KEYS[7..] crons  hashes of the schedules
-- ARGV[7] count  how many ticks follow, eleven arguments each: name, digest and mark (ms) that
--                the caller decided from, tick (ms; '': only a gap), due (ms), id, patient ('1':
--                wait for room), gap: from (ms; '': none), to (ms), count, why
--
-- Returns {0, now µs, rows}, a row a tick {code, mark ms, detail}: 1 fired, 2 queued, 3 skipped
--         (overlap), 4 coalesced, 5 backlog, 6 the id exists, 7 skipped (asked for), 8 gap; and
--         refused, nothing changed: 11 another mark, 12 another digest (detail), 13 paused,
--         14 too early, 15 gone, 16 max_runs reached, 17 broken key, 18 moved to another type
--         (detail), 19 no room yet
--         {-1, now µs} too late
--
-- @include type guard events live load pack ends state anew back ready stop overlap
local count = tonumber(ARGV[7])
local words = {'fired', 'queued', 'skipped', 'coalesced', 'backlog', 'exists', 'skipped'}
local reasons_of = {[3] = 'overlap', [7] = 'asked'}

-- Before an earlier task is looked at: after a restore it may be the one of this very tick.
local function code_of(one, known, tick, id, is_patient, stopped)
  if tick == '' then
    return 8
  elseif one.is_taken(id) then
    return 6
  end
  return is_asked(known.skips, tick) and 7 or overlap_of(one, known, is_patient, stopped)
end

local rows, stopped = {}, {}
for index = 1, count do
  local at, key = index * 11 - 4, KEYS[6 + index]
  local name, tick, id, gap_to = ARGV[at + 1], ARGV[at + 4], ARGV[at + 6], ARGV[at + 9]
  local one = schedule(name, key)
  local known, last = one.read(), tick ~= '' and tick or gap_to
  local code, detail = refusal(known, ARGV[at + 2], ARGV[at + 3], last)
  code = code or code_of(one, known, tick, id, ARGV[at + 7] == '1', stopped)
  if code < 10 then
    if gap_to ~= '' then
      one.record(known, 'gap', 'from', ARGV[at + 8], 'to', gap_to, 'n', ARGV[at + 10], 'why', ARGV[at + 11])
    end
    if code == 1 then
      one.start(id, ARGV[at + 5], tick, '')
    elseif code == 2 then
      redis.call('HSET', key, 'queued', tick .. ' ' .. ARGV[at + 5] .. ' ' .. id .. ' ')
    end
    known.mark = tonumber(last)
    if code == 8 then
      redis.call('HSET', key, 'mark', last)
    else
      one.told(known, tick, words[code], id, reasons_of[code])
    end
  end
  rows[index] = {code, known and int(known.mark) or '', detail or ''}
end
write_events()
for _, id in ipairs(stopped) do
  tell_to_stop(id)
end
return {0, now_us, rows}
