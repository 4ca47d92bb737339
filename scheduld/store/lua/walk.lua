#!lua flags=no-writes
-- Reads the tasks of one index in its order, from behind a place in it. A place is a score and
-- an id, so that what others put in and take out moves nothing past the reader.
--
-- KEYS[1..6], ARGV[1..6]: see include/type.lua
-- ARGV[7]  part    which index: due, leased, done or dead
-- ARGV[8]  score   '' for the head, or the score of the last entry that was read ...
-- ARGV[9]  member  ... and its id
-- ARGV[10] limit   most tasks to read
--
-- Returns {0, now µs, rows}: {id, its score, its row in read.lua}
--         {-1, now µs} too late
--
-- @include type guard row
local part, score, member, limit = ARGV[7], ARGV[8], ARGV[9], tonumber(ARGV[10])
local max_bytes = 1024 * 1024

local index = ({due = due, leased = leased, done = done, dead = dead})[part]

-- Redis orders ids byte by byte; Lua by the server's language.
local function is_behind(id)
  for place = 1, math.min(#id, #member) do
    local ours, theirs = string.byte(id, place), string.byte(member, place)
    if ours ~= theirs then
      return ours > theirs
    end
  end
  return #id > #member
end

-- Rank of the first entry behind the place, also if its own entry has gone.
local function first_rank()
  if score == '' then
    return 0
  end
  local low = redis.call('ZCOUNT', index, '-inf', '(' .. score)
  local high = redis.call('ZCOUNT', index, '-inf', score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if is_behind(redis.call('ZRANGE', index, middle, middle)[1]) then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end

local from, rows, bytes, ids = first_rank(), {}, 0, {}
local entries = redis.call('ZRANGE', index, from, from + limit - 1, 'WITHSCORES')
for place = 1, #entries, 2 do
  ids[#ids + 1] = entries[place]
end
local scores = scores_of(ids)
for place, id in ipairs(ids) do
  local row = row_of(scores, place, prefix .. id)
  rows[place] = {id, entries[2 * place], row}
  for _, part_of_hash in ipairs(row[5]) do
    bytes = bytes + #part_of_hash
  end
  if bytes > max_bytes then
    break
  end
end
return {0, now_us, rows}
