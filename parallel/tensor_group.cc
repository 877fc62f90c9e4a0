// SPDX-License-Identifier: Apache-2.0
#include "parallel/tensor_group.h"

#include <algorithm>
#include <utility>

namespace keel::parallel {

TensorGroup::TensorGroup(Memory& memory, Channel channel, bool sequence, int64_t chunks)
    : memory_(memory),
      stream_(memory.stream()),
      channel_(channel),
      sequence_(sequence),
      chunks_(channel.ranks() > 1 ? std::max<int64_t>(chunks, 1) : 1),
      counts_(static_cast<size_t>(channel.ranks())),
      offsets_(static_cast<size_t>(channel.ranks())) {
  if (chunks_ == 1) return;
  lane_.emplace(stream_.device(), /*priority=*/-1);
  ready_.emplace();
  for (int64_t i = 0; i < chunks_; ++i) done_.emplace_back();
}

void TensorGroup::place(const Piece& piece, int64_t rows, int64_t columns) {
  for (int64_t rank = 0; rank < size(); ++rank) {
    counts_[static_cast<size_t>(rank)] = static_cast<uint64_t>((piece.end - piece.begin) * columns);
    offsets_[static_cast<size_t>(rank)] =
        static_cast<uint64_t>((rank * rows + piece.begin) * columns);
  }
}

void TensorGroup::lane_waits() {
  ready_->record(stream_);
  lane_->wait(*ready_);
}

void TensorGroup::lane_done(size_t chunk) {
  done_[chunk].record(*lane_);
}

Tensor TensorGroup::rounded_rows(const keel_tensor& x, const keel_tensor& weight, int64_t first,
                                 int64_t count) {
  if (weight.dtype == x.dtype) return {};
  Tensor rows = memory_.take({count, x.shape[1]}, static_cast<keel_dtype>(weight.dtype));
  ops::cast(stream_, {.x = rows_of(x, first, count), .y = rows});
  return rows;
}

void TensorGroup::multiply(std::initializer_list<Product> products, const keel_tensor& x,
                           int64_t first, int64_t count) {
  if (products.size() == 0) return;  // a caller that wants all rows alone
  const Tensor rounded = rounded_rows(x, products.begin()->weight, first, count);
  for (const Product& product : products) {
    ops::matmul(stream_, {.a = rounded ? rounded.view() : rows_of(x, first, count),
                          .b = product.weight,
                          .bias = product.bias ? Operand(*product.bias) : nullptr,
                          .c = rows_of(product.y, first, count),
                          .trans_b = product.transposed});
  }
}

void TensorGroup::multiply(const Summand& summand, const keel_tensor& y, int64_t first,
                           int64_t count, bool add) {
  const Tensor rounded = rounded_rows(summand.x, summand.weight, first, count);
  ops::matmul(stream_, {.a = rounded ? rounded.view() : rows_of(summand.x, first, count),
                        .b = summand.weight,
                        .c = rows_of(y, first, count),
                        .trans_b = summand.transposed,
                        .beta = add ? 1.0 : 0.0});
}

Tensor TensorGroup::gather_products(Tensor x, std::initializer_list<Product> products) {
  const int64_t rows = x.view().shape[0], columns = x.view().shape[1];
  if (!divides_rows()) {
    multiply(products, x, 0, rows);
    return x;
  }
  Tensor all = memory_.take({rows * size(), columns});
  if (chunks_ == 1) {
    channel_.all_gather(x.view().data, all.view().data, rows * columns, stream_);
    multiply(products, all, 0, rows * size());
    return all;
  }
  lane_waits();
  for (int64_t chunk = 0; chunk < chunks_; ++chunk) {
    const Piece cut = piece(chunk, rows);
    if (cut.begin == cut.end) continue;
    place(cut, rows, columns);
    channel_.all_gather_v(rows_of(x, cut.begin, cut.end - cut.begin).data, all.view().data, counts_,
                          offsets_, *lane_);
    lane_done(static_cast<size_t>(chunk));
  }
  for (int64_t chunk = 0; chunk < chunks_; ++chunk) {
    const Piece cut = piece(chunk, rows);
    if (cut.begin == cut.end) continue;
    channel_.wait(stream_, done_[static_cast<size_t>(chunk)]);
    for (int64_t rank = 0; rank < size(); ++rank) {
      multiply(products, all, rank * rows + cut.begin, cut.end - cut.begin);
    }
  }
  return all;
}

Tensor TensorGroup::products_reduce(std::initializer_list<Summand> summands, int64_t columns) {
  const int64_t rows = summands.begin()->x.shape[0];
  Tensor partial = memory_.take({rows, columns});
  if (chunks_ == 1) {
    bool add = false;
    for (const Summand& summand : summands) {
      multiply(summand, partial, 0, rows, std::exchange(add, true));
    }
    return reduce(std::move(partial));
  }
  // Without divided rows the chunks are whole runs of rows, each summed in place.
  const int64_t parts = divides_rows() ? size() : 1;
  const int64_t own = rows / parts;
  Tensor result = divides_rows() ? memory_.take({own, columns}) : partial;
  for (int64_t chunk = 0; chunk < chunks_; ++chunk) {
    const Piece cut = piece(chunk, own);
    const int64_t count = cut.end - cut.begin;
    if (count == 0) continue;
    for (int64_t part = 0; part < parts; ++part) {
      bool add = false;
      for (const Summand& summand : summands) {
        multiply(summand, partial, part * own + cut.begin, count, std::exchange(add, true));
      }
    }
    lane_waits();
    void* const target = rows_of(result, cut.begin, count).data;
    if (divides_rows()) {
      place(cut, own, columns);
      channel_.reduce_scatter_v(partial.view().data, target, counts_, offsets_, *lane_);
    } else {
      channel_.all_reduce(target, count * columns, *lane_);
    }
  }
  lane_done(0);
  channel_.wait(stream_, done_[0]);
  return result;
}

Tensor TensorGroup::reduce(Tensor partial) {
  if (size() == 1) return partial;
  const int64_t rows = partial.view().shape[0], columns = partial.view().shape[1];
  if (!divides_rows()) {
    channel_.all_reduce(partial.view().data, rows * columns, stream_);
    return partial;
  }
  Tensor own = memory_.take({rows / size(), columns});
  channel_.reduce_scatter(partial.view().data, own.view().data, rows / size() * columns, stream_);
  return own;
}

}  // namespace keel::parallel
